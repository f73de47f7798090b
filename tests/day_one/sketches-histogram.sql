-- expect: accepted
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW sizes AS
SELECT host, histogram(bytes, array(1000, 10000, 100000)) AS by_size, sample(path, 10) AS some_paths
FROM requests GROUP BY host, window(at, '1 hour');
