-- expect: accepted
CREATE SOURCE IF NOT EXISTS website_visits (
  timestamp TIMESTAMP WITH TIME ZONE,
  user_id VARCHAR,
  page_id VARCHAR,
  action VARCHAR
) WITH (
  connector = 'kafka',
  topic = 'test',
  properties.bootstrap.server = 'message_queue:29092',
  scan.startup.mode = 'earliest',
  properties.sasl.mechanism = 'PLAIN',
  properties.security.protocol = 'SASL_PLAINTEXT',
  properties.sasl.username = 'admin',
  properties.sasl.password = 'admin-secret'
) FORMAT PLAIN ENCODE JSON;
