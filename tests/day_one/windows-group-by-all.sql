-- expect: accepted
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW minutes AS
SELECT date_trunc('minute', at) AS minute, host, status div 100 AS class, count(*) AS n
FROM requests GROUP BY ALL;
