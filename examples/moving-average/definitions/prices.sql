CREATE STREAM prices (
  symbol STRING NOT NULL,
  price  DECIMAL(10,2) NOT NULL,
  at     TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
);

CREATE MATERIALIZED VIEW moving_average AS
SELECT symbol, avg(price) AS average, min(price) AS lowest, max(price) AS highest, last(price) AS latest
FROM prices
GROUP BY symbol, window(at, '1 hour', '10 minutes');
