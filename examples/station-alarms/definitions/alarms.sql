CREATE TABLE stations (id STRING PRIMARY KEY, critical_limit INT);

CREATE STREAM alarms (
  station  STRING NOT NULL,
  severity STRING NOT NULL,
  code     INT,
  at       TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 2 MINUTES
);

CREATE MATERIALIZED VIEW alarms_per_station AS
SELECT station,
       count(*)                            AS alarms,
       count_if(severity = 'critical')     AS critical,
       coalesce(last(s.critical_limit), 5) AS critical_limit,
       approx_top_k(code, 3)               AS codes,
       max_by(code, at)                    AS last_code
FROM alarms
LEFT JOIN stations s ON s.id = station
GROUP BY station, window(at, '15 minutes');

CREATE ALERT station_down AS
SELECT station, critical, critical_limit
FROM alarms_per_station
WHERE critical >= critical_limit
WITH (severity = 'critical', summary = '{station}: {critical} critical alarms, {critical_limit} are too many');
