-- expect: accepted
CREATE STREAM readings (sensor STRING NOT NULL, celsius DOUBLE, humidity DOUBLE, battery INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL '10' SECONDS);
CREATE MATERIALIZED VIEW spread AS
SELECT sensor, stddev_samp(celsius) AS s, stddev_pop(celsius) AS sp, var_samp(celsius) AS v, var_pop(humidity) AS vp, corr(celsius, humidity) AS c, covar_samp(celsius, humidity) AS cs, covar_pop(celsius, humidity) AS cp
FROM readings GROUP BY sensor, window(at, '15 minutes');
