-- expect: accepted
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW health AS
SELECT host, count(*) AS n, CASE WHEN sum(CASE WHEN status >= 500 THEN 1 ELSE 0 END) * 20 > count(*) THEN 'bad' WHEN max(ms) > 1000 THEN 'slow' ELSE 'good' END AS state
FROM requests GROUP BY host, window(at, '5 minutes');
