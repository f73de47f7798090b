-- expect: accepted
CREATE STREAM rides (
  id VARCHAR KEY,
  trace VARCHAR HEADER('trace'),
  fare DECIMAL(10, 2),
  city VARCHAR
) WITH (KAFKA_TOPIC = 'rides', KEY_FORMAT = 'KAFKA', VALUE_FORMAT = 'DELIMITED', VALUE_DELIMITER = 'TAB');
