-- expect: accepted
CREATE STREAM orders (order_id BIGINT NOT NULL, customer STRING, status STRING, amount DECIMAL(12,2), items INT, gift BOOLEAN, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL '30' SECOND);
CREATE MATERIALIZED VIEW weekly AS
SELECT date_trunc('week', at AT TIME ZONE 'America/New_York') AS week, status, count(*) AS n
FROM orders GROUP BY 1, 2;
