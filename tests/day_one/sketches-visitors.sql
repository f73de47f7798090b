-- expect: accepted
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW visitors AS
SELECT host, approx_count_distinct(client) AS clients, approx_count_distinct(client) FILTER (WHERE status >= 500) AS unlucky, unique(path) AS paths
FROM requests GROUP BY host, window(at, '1 day');
