-- expect: accepted
CREATE MATERIALIZED VIEW by_host AS SELECT host, level, count(*) AS n, max(seconds) AS worst FROM errors GROUP BY host, level, window(at, '1 minute');
CREATE STREAM errors AS SELECT p.* EXCEPT (ms), ms / 1000 AS seconds FROM parsed AS p WHERE level IN ('error', 'fatal') AND NOT (message RLIKE 'health.?check');
CREATE STREAM parsed (WATERMARK FOR at AS at - INTERVAL '30' SECOND) AS SELECT lower(get_json_object(line, '$.level')) AS level, host, get_json_object(line, '$.msg') AS message, TRY_CAST(get_json_object(line, '$.ms') AS DOUBLE) AS ms, at FROM app_logs UNION ALL SELECT 'error', server, text, CAST(NULL AS DOUBLE), happened FROM proxy_logs;
CREATE STREAM app_logs (host STRING, line STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 5 SECONDS);
CREATE STREAM proxy_logs (server STRING, text STRING, happened TIMESTAMP NOT NULL, WATERMARK FOR happened AS happened);
