-- expect: accepted
CREATE STREAM orders (order_id BIGINT NOT NULL, customer STRING, status STRING, amount DECIMAL(12,2), items INT, gift BOOLEAN, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL '30' SECOND);
CREATE MATERIALIZED VIEW baskets AS
SELECT customer, collect_set(status) AS statuses, collect_list(amount) AS amounts, count(DISTINCT status, gift) AS pairs
FROM orders GROUP BY customer, window(at, '1 day');
