CREATE STREAM visits (
  visitor STRING NOT NULL,
  page    STRING NOT NULL,
  at      TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 10 MINUTES
);

CREATE MATERIALIZED VIEW visitors AS
SELECT page,
       count(*)                       AS visits,
       count(DISTINCT visitor)        AS visitors,
       approx_count_distinct(visitor) AS about
FROM visits
GROUP BY page, window(at, '1 hour');
