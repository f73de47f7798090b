-- expect: accepted
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW rolling AS
SELECT window_start, window_end, host, COUNT(*) AS n
FROM TABLE(HOP(TABLE requests, DESCRIPTOR(at), INTERVAL '5' MINUTES, INTERVAL '1' HOUR))
GROUP BY window_start, window_end, host;
CREATE MATERIALIZED VIEW running AS
SELECT host, window_end, sum(bytes) AS bytes
FROM TABLE(CUMULATE(TABLE requests, DESCRIPTOR(at), INTERVAL '10' MINUTES, INTERVAL '1' DAY))
GROUP BY host, window_start, window_end;
