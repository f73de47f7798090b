-- expect: refused, the message names: approx_percentile(ms, 0.5) | approx_percentile(bytes, 0.9) | approx_top_k(path, 1) | collect_list(client)
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW a AS SELECT host, median(ms) AS m, percentile_disc(0.9) WITHIN GROUP (ORDER BY bytes) AS p, mode(path) AS most, string_agg(client, ', ' ORDER BY at) AS clients FROM requests GROUP BY host, window(at, '1 minute');
