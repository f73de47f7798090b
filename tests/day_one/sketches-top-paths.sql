-- expect: accepted
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW top_paths AS
SELECT host, approx_top_k(path, 5) AS paths, approx_top_k(client, 20) AS clients
FROM requests GROUP BY host, window(at, '1 hour');
