-- expect: refused, the message names: GROUP BY host | window(at, | LIMIT
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW a AS SELECT host, count(*) OVER (PARTITION BY host) AS n FROM requests;
CREATE MATERIALIZED VIEW b AS SELECT DISTINCT host FROM requests;
CREATE MATERIALIZED VIEW c AS SELECT TOP 10 path, count(*) AS n FROM requests GROUP BY path, window(at, '1 hour');
