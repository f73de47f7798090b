-- expect: accepted
CREATE TABLE clicks (
  `user` STRING,
  url STRING,
  event_time TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  `partition` BIGINT METADATA VIRTUAL,
  WATERMARK FOR event_time AS event_time - INTERVAL '10' SECONDS
) WITH (
  'connector' = 'kafka',
  'topic-pattern' = 'clicks-.*',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.group.id' = 'analytics',
  'properties.security.protocol' = 'SASL_SSL',
  'scan.startup.mode' = 'timestamp',
  'scan.startup.timestamp-millis' = '1700000000000',
  'value.format' = 'json',
  'key.format' = 'raw'
);
CREATE TABLE raw_lines (value STRING) WITH ('connector' = 'kafka', 'topic' = 'lines', 'format' = 'raw');
