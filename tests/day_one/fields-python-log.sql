-- expect: accepted
CREATE STREAM log (value STRING NOT NULL,
  at TIMESTAMP AS to_timestamp(substring(value, 1, 23), 'yyyy-MM-dd HH:mm:ss,SSS'),
  level STRING AS split_part(value, ' ', 3),
  WATERMARK FOR at AS at - INTERVAL 10 SECONDS) FORMAT TEXT;
CREATE MATERIALIZED VIEW levels AS SELECT level, count(*) AS n FROM log GROUP BY level, window(at, '1 minute');
