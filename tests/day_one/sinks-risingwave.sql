-- expect: accepted
CREATE STREAM visits (page STRING, status INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS);
CREATE MATERIALIZED VIEW traffic AS SELECT page, count(*) AS hits FROM visits GROUP BY page, window(at, '1 minute');
CREATE SINK IF NOT EXISTS to_topic FROM traffic WITH (connector = 'kafka', properties.bootstrap.server = 'localhost:9092', topic = 'traffic') FORMAT UPSERT ENCODE JSON;
CREATE SINK to_lake FROM visits WHERE status >= 500 WITH (connector = 'files', path = 'errors', partition_by = 'date') FORMAT PLAIN ENCODE PARQUET;
CREATE SINK to_table FROM traffic WITH (connector = 'jdbc', url = 'secret:PG_URL', table.name = 'traffic', type = 'upsert');
