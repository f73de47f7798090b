-- expect: accepted
CREATE STREAM orders (order_id BIGINT NOT NULL, customer STRING, status STRING, amount DECIMAL(12,2), items INT, gift BOOLEAN, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL '30' SECOND);
CREATE MATERIALIZED VIEW by_quarter AS
SELECT date_trunc('quarter', at) AS quarter, sum(amount) AS total
FROM orders GROUP BY date_trunc('quarter', at);
CREATE MATERIALIZED VIEW by_year AS
SELECT customer, sum(amount) AS total FROM orders GROUP BY customer, window(at, '1 year');
