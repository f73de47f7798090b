-- expect: accepted
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW worst_hosts AS
SELECT host, count(*) AS n, avg(ms) AS mean
FROM requests GROUP BY host, window(at, '10 minutes')
ORDER BY count_if(status >= 500) / count(*) DESC NULLS LAST, host LIMIT 5;
