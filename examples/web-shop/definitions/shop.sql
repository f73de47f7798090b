CREATE TABLE customers (id STRING PRIMARY KEY, plan STRING, city STRING);

CREATE STREAM orders (
  id       BIGINT NOT NULL,
  customer STRING NOT NULL,
  amount   DECIMAL(10,2) NOT NULL,
  at       TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
);

CREATE MATERIALIZED VIEW revenue_by_plan AS
SELECT c.plan, count(*) AS orders, sum(o.amount) AS revenue
FROM orders o
LEFT JOIN customers c ON o.customer = c.id
GROUP BY c.plan, window(o.at, '1 hour');
