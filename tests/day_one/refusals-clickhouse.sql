-- expect: refused, the message names: approx_percentile(ms, 0.95) | count(DISTINCT client) | date_trunc('hour', at) | count_if(status >= 500) | collect_list(path)
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW a AS SELECT toStartOfHour(at) AS hour, host, quantile(0.95)(ms) AS p95 FROM requests GROUP BY hour, host;
CREATE MATERIALIZED VIEW b AS SELECT host, uniqExact(client) AS clients, countIf(status >= 500) AS errors, groupArray(path) AS paths FROM requests GROUP BY host, window(at, '1 hour');
