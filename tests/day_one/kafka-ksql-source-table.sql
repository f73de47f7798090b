-- expect: accepted
CREATE SOURCE TABLE users (id VARCHAR PRIMARY KEY, gender VARCHAR) WITH (kafka_topic = 'users', value_format = 'JSON');
CREATE SOURCE STREAM views (user VARCHAR, page VARCHAR) WITH (kafka_topic = 'views', value_format = 'JSON');
