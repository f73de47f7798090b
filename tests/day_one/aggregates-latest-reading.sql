-- expect: accepted
CREATE STREAM readings (sensor STRING NOT NULL, celsius DOUBLE, humidity DOUBLE, battery INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL '10' SECONDS);
CREATE MATERIALIZED VIEW latest AS
SELECT sensor, last(celsius) AS celsius, first(celsius) AS at_first, max_by(humidity, celsius) AS when_hottest, min_by(at, battery) AS weakest_at, max_by(celsius, at, 3) AS last_three, max(at) AS seen
FROM readings GROUP BY sensor;
