-- expect: refused, the message names: --start=-24h | --start=-15m | event time
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW a AS SELECT host, count(*) AS n FROM requests WHERE at >= CURRENT_TIMESTAMP - INTERVAL '24' HOUR GROUP BY host;
CREATE MATERIALIZED VIEW b AS SELECT host, count(*) AS n FROM requests WHERE status >= 500 AND at > now() - INTERVAL '15 minutes' GROUP BY host, window(at, '1 minute');
CREATE STREAM ticks (symbol STRING, price DOUBLE, at AS PROCTIME());
