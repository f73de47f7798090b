-- expect: refused, the message names: Headrace makes no topics | viewtime_ts TIMESTAMP AS timestamp_millis(viewtime), WATERMARK FOR viewtime_ts AS viewtime_ts | expected JSON, TEXT or CSV | it has no key
CREATE STREAM a (x INT) WITH (KAFKA_TOPIC = 'a', VALUE_FORMAT = 'JSON', PARTITIONS = 6);
CREATE STREAM b (viewtime BIGINT) WITH (KAFKA_TOPIC = 'b', VALUE_FORMAT = 'JSON', TIMESTAMP = 'viewtime');
CREATE STREAM c (x INT) WITH (KAFKA_TOPIC = 'c', VALUE_FORMAT = 'AVRO');
CREATE STREAM d (id VARCHAR PRIMARY KEY, name VARCHAR) WITH (KAFKA_TOPIC = 'd', VALUE_FORMAT = 'JSON');
