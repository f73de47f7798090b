CREATE STREAM access (
  value   STRING NOT NULL,
  address STRING AS split_part(value, ' ', 1),
  at      TIMESTAMP AS to_timestamp(regexp_extract(value, r'\[([^\]]+)\]', 1), 'dd/MMM/yyyy:HH:mm:ss Z'),
  page    STRING AS regexp_extract(value, r'"[A-Z]+ ([^ ?"]+)', 1),
  status  INT AS CAST(regexp_extract(value, r'" (\d{3}) ', 1) AS INT),
  ms      INT AS CAST(regexp_extract(value, r' (\d+)$', 1) AS INT),
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
) FORMAT TEXT;

CREATE MATERIALIZED VIEW by_address AS
SELECT address, count(*) AS requests, max(at) AS last_seen
FROM access
GROUP BY address
ORDER BY requests DESC;

CREATE MATERIALIZED VIEW error_rate AS
SELECT count(*) AS requests, round(100.0 * count_if(status >= 500) / count(*), 2) AS error_percent
FROM access
GROUP BY window(at, '10 minutes');

CREATE MATERIALIZED VIEW slowest AS
SELECT page, count(*) AS requests, approx_percentile(ms, 0.95) AS p95_ms, max(ms) AS worst_ms
FROM access
GROUP BY page
HAVING requests >= 20
ORDER BY p95_ms DESC
LIMIT 5;
