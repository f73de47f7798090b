CREATE STREAM shipments (
  item STRING NOT NULL, quantity INT NOT NULL, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 HOUR
);
CREATE STREAM sales (
  item STRING NOT NULL, quantity INT NOT NULL, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE
);

CREATE STREAM movements AS
SELECT item, quantity AS change, at FROM shipments
UNION ALL
SELECT item, -quantity, at FROM sales;

CREATE MATERIALIZED VIEW stock AS
SELECT item,
       sum(change)          AS in_stock,
       100 - in_stock       AS order_quantity,
       count_if(change < 0) AS sales,
       max(at)              AS last_change
FROM movements
GROUP BY item;

CREATE VIEW reorders AS
SELECT item, in_stock, order_quantity
FROM stock
WHERE in_stock < 20
ORDER BY in_stock, item;

CREATE MATERIALIZED VIEW demand AS
SELECT item,
       sum(quantity)                                                   AS sold,
       CASE WHEN sold >= 150 THEN 5 WHEN sold < 50 THEN -10 ELSE 0 END AS price_percent
FROM sales
GROUP BY item, window(at, 'week');
