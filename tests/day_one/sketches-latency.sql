-- expect: accepted
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW latency AS
SELECT host, approx_percentile(ms, 0.5) AS p50, approx_percentile(ms, 0.99) AS p99, approx_percentile(bytes, array(0.25, 0.5, 0.75)) AS quartiles
FROM requests GROUP BY host, window(at, '1 minute');
