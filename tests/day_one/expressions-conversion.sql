-- expect: accepted
CREATE STREAM orders (order_id BIGINT NOT NULL, customer STRING, status STRING, amount DECIMAL(12,2), items INT, gift BOOLEAN, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL '30' SECOND);
CREATE MATERIALIZED VIEW conversion AS
SELECT customer, round(100.0 * count(*) FILTER (WHERE status = 'paid') / nullif(count(*), 0), 1) AS paid_pct, sum(amount) / count(*) AS mean
FROM orders GROUP BY customer, window(at, '1 day');
