CREATE STREAM rides (
  driver  STRING NOT NULL,
  started TIMESTAMP NOT NULL,
  ended   TIMESTAMP NOT NULL,
  WATERMARK FOR ended AS ended - INTERVAL 30 MINUTES
);

CREATE MATERIALIZED VIEW shifts AS
SELECT driver,
       count(*)                      AS rides,
       longest_shift(started, ended) AS shift_minutes
FROM rides
GROUP BY driver, window(ended, '1 day', '1 hour');

CREATE ALERT too_long AS
SELECT driver, shift_minutes, rides
FROM shifts
WHERE shift_minutes > 12 * 60
WITH (severity = 'critical', summary = '{driver} has been driving for {shift_minutes} minutes');
