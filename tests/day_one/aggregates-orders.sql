-- expect: accepted
CREATE STREAM orders (order_id BIGINT NOT NULL, customer STRING, status STRING, amount DECIMAL(12,2), items INT, gift BOOLEAN, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL '30' SECOND);
CREATE MATERIALIZED VIEW sales AS
SELECT status, count(*) AS n, count(customer) AS known, count(DISTINCT customer) AS customers, sum(amount) AS total, avg(amount) AS mean, min(amount) AS least, max(amount) AS most
FROM orders GROUP BY status, window(at, '1 hour');
