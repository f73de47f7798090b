-- expect: accepted
CREATE STREAM orders (order_id BIGINT NOT NULL, customer STRING, status STRING, amount DECIMAL(12,2), items INT, gift BOOLEAN, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL '30' SECOND);
CREATE MATERIALIZED VIEW big_spenders AS
SELECT customer, sum(amount) AS total
FROM orders GROUP BY customer, window(at, '30 days', '1 day')
HAVING sum(amount) > 1000 AND count(*) >= 3 AND max(amount) < 5000;
