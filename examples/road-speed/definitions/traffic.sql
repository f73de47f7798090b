CREATE STREAM positions (
  vehicle STRING NOT NULL,
  road    STRING NOT NULL,
  km      DOUBLE NOT NULL,
  kmh     DOUBLE NOT NULL,
  at      TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 2 MINUTES
);

CREATE MATERIALIZED VIEW speeds AS
SELECT road,
       CAST(floor(km) AS INT)       AS segment,
       count(DISTINCT vehicle)      AS vehicles,
       count_if(kmh < 20)           AS slow,
       round(avg(kmh), 1)           AS mean_kmh,
       approx_percentile(kmh, 0.85) AS v85_kmh
FROM positions
GROUP BY road, segment, window(at, '5 minutes');
