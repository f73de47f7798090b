CREATE STREAM alarms (
  station  STRING NOT NULL,
  severity STRING NOT NULL,
  code     INT,
  at       TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 2 MINUTES
);

CREATE MATERIALIZED VIEW alarms_per_station AS
SELECT station,
       count(*)                          AS alarms,
       count_if(severity = 'critical')   AS critical,
       approx_top_k(code, 3)             AS codes,
       max_by(code, at)                  AS last_code
FROM alarms
GROUP BY station, window(at, '15 minutes');

CREATE ALERT station_down AS
SELECT station, critical
FROM alarms_per_station
WHERE critical >= 5
WITH (severity = 'critical', summary = '{station}: {critical} critical alarms');
