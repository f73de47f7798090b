CREATE STREAM readings (
  sensor  STRING NOT NULL,
  kind    STRING NOT NULL,
  value   DOUBLE,
  at      TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 30 SECONDS
);

CREATE STREAM beyond AS
SELECT sensor, kind, value, at
FROM readings
WHERE value > CASE kind WHEN 'temperature' THEN 80 WHEN 'pressure' THEN 6.5 ELSE 1000 END;

CREATE MATERIALIZED VIEW sensor_state AS
SELECT sensor, kind, count(*) AS readings, avg(value) AS mean, stddev(value) AS spread, last(value) AS latest
FROM readings
GROUP BY sensor, kind, window(at, '5 minutes');

CREATE MATERIALIZED VIEW too_high AS
SELECT sensor, count(*) AS times, max(value) AS highest, min(at) AS since
FROM beyond
GROUP BY sensor, window(at, '5 minutes')
HAVING times >= 3;
