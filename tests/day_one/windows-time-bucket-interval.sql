-- expect: accepted
CREATE STREAM readings (sensor STRING NOT NULL, celsius DOUBLE, humidity DOUBLE, battery INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL '10' SECONDS);
CREATE MATERIALIZED VIEW buckets AS
SELECT time_bucket(INTERVAL '5 minutes', at) AS bucket, sensor, avg(celsius) AS celsius
FROM readings GROUP BY bucket, sensor ORDER BY bucket DESC LIMIT 100;
