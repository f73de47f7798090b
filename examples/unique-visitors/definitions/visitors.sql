CREATE STREAM visits (
  visitor STRING NOT NULL,
  url     STRING NOT NULL,
  domain  STRING AS split_part(url, '/', 3),
  page    STRING AS concat('/', split_part(url, '/', 4)),
  at      TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 10 MINUTES
);

CREATE MATERIALIZED VIEW visitors AS
SELECT domain,
       page,
       count(*)                       AS visits,
       count(DISTINCT visitor)        AS visitors,
       approx_count_distinct(visitor) AS about
FROM visits
GROUP BY domain, page, window(at, '1 hour');
