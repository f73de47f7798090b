-- A web shop on its busiest day: two streams, and the views that `headrace demo` fills and checks.

CREATE STREAM visits (
  visitor  STRING NOT NULL,
  page     STRING,
  status   INT,
  bytes    BIGINT,
  load_ms  DOUBLE,
  referrer STRING,
  at       TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
);

CREATE STREAM orders (
  order_id STRING NOT NULL,
  visitor  STRING NOT NULL,
  category STRING,
  amount   DECIMAL(10,2),
  quantity INT NOT NULL,
  country  STRING,
  gift     BOOLEAN,
  at       TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
);

-- Each page, minute by minute.
CREATE MATERIALIZED VIEW traffic AS
SELECT page,
       count(*)                              AS hits,
       count(*) FILTER (WHERE status >= 500) AS errors,
       sum(bytes)                            AS bytes,
       avg(load_ms)                          AS load_ms
FROM visits
GROUP BY page, window(at, '1 minute');

-- What each category brings in.
CREATE MATERIALIZED VIEW revenue AS
SELECT category,
       count(*)               AS orders,
       count(amount)          AS priced,
       sum(amount * quantity) AS revenue,
       avg(amount)            AS mean_amount,
       min(amount)            AS lowest,
       max(amount)            AS highest
FROM orders
GROUP BY category, window(at, '1 minute');

-- The last five minutes, every minute.
CREATE MATERIALIZED VIEW pulse AS
SELECT status,
       count(*)                       AS hits,
       approx_count_distinct(visitor) AS visitors,
       max(load_ms)                   AS slowest
FROM visits
GROUP BY status, window(at, '5 minutes', '1 minute');

-- How many people were served, and how many of them came to pay.
CREATE MATERIALIZED VIEW audience AS
SELECT count(*)                                                          AS hits,
       approx_count_distinct(visitor)                                    AS visitors,
       approx_count_distinct(visitor) FILTER (WHERE page = '/checkout')  AS at_checkout
FROM visits
WHERE status < 400
GROUP BY window(at, '10 minutes');

-- Where people come from, and how it went.
CREATE MATERIALIZED VIEW sources AS
SELECT lower(coalesce(referrer, 'direct')) AS source,
       CASE WHEN status >= 500 THEN 'failed'
            WHEN status >= 400 THEN 'refused'
            WHEN status IS NULL THEN 'unknown'
            ELSE 'served' END              AS outcome,
       count(*)                            AS hits,
       count(bytes)                        AS sized,
       sum(bytes)                          AS bytes
FROM visits
GROUP BY source, outcome, window(at, '5 minutes');

-- Every order there ever was: no window.
CREATE MATERIALIZED VIEW countries AS
SELECT country,
       count(*)                        AS orders,
       count(*) FILTER (WHERE gift)    AS gifts,
       sum(quantity)                   AS items,
       avg(quantity)                   AS mean_items,
       sum(amount * quantity)          AS revenue,
       approx_count_distinct(visitor)  AS buyers,
       min(at)                         AS first_order,
       max(at)                         AS last_order
FROM orders
WHERE amount > 0
GROUP BY country;
