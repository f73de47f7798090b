-- expect: refused, the message names: CREATE MATERIALIZED VIEW errors_per_host AS | window(at, '1 hour', '5 minutes') | GROUP BY host,
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE TABLE errors_per_host AS SELECT host, COUNT(*) AS n FROM requests WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES) WHERE status >= 500 GROUP BY host EMIT FINAL;
