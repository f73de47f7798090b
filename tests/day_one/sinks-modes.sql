-- expect: accepted
CREATE STREAM visits (page STRING, status INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS);
CREATE MATERIALIZED VIEW traffic AS SELECT page, count(*) AS hits FROM visits GROUP BY page, window(at, '1 minute');
CREATE SINK once FROM traffic WITH (connector = 'http', url = 'https://example.com/hook', mode = 'append', token = 'secret:HOOK', 'header.x-team' = 'data', timeout = '5 seconds');
CREATE SINK all_rows FROM traffic WITH (connector = 'files', path = 'out', format = 'ndjson', mode = 'complete');
CREATE SINK closed FROM traffic WHERE hits > 10 WITH (connector = 'postgres', url = 'postgresql://app@db/numbers', table = 'traffic', corrections = false) EMIT ON WINDOW CLOSE;
CREATE SINK every_change FROM traffic EMIT CHANGES WITH (connector = 'upsert-kafka', topic = 'traffic', 'properties.bootstrap.servers' = 'b:9092', sink.delivery-guarantee = 'exactly-once', properties.sasl.password = 'secret:file:/run/secrets/kafka');
CREATE SINK new_events FROM visits WITH (connector = 'kafka', topic = 'visits', brokers = 'b:9092', 'scan.startup.mode' = 'latest-offset');
