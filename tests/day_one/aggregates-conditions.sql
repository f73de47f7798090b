-- expect: accepted
CREATE STREAM orders (order_id BIGINT NOT NULL, customer STRING, status STRING, amount DECIMAL(12,2), items INT, gift BOOLEAN, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL '30' SECOND);
CREATE MATERIALIZED VIEW checks AS
SELECT customer, bool_and(amount > 0) AS all_paid, bool_or(gift) AS any_gift, count_if(status = 'returned') AS returned, sum(amount) FILTER (WHERE status = 'paid') AS paid, any_value(status) AS some_status
FROM orders GROUP BY customer, window(at, '1 day');
