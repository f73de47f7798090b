CREATE STREAM searches (
  id STRING NOT NULL, text STRING NOT NULL, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE
);
CREATE STREAM clicks (
  search STRING NOT NULL, result STRING NOT NULL, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE
);

CREATE STREAM steps AS
SELECT id AS search, text, NULL AS result, at FROM searches
UNION ALL
SELECT search, NULL, result, at FROM clicks;

CREATE MATERIALIZED VIEW searched AS
SELECT search,
       max(text)                                       AS text,
       count(result)                                   AS clicks,
       first(result) FILTER (WHERE result IS NOT NULL) AS first_result,
       min(at) FILTER (WHERE text IS NOT NULL)         AS searched_at,
       min(at) FILTER (WHERE result IS NOT NULL)       AS clicked_at
FROM steps
GROUP BY search;

CREATE VIEW click_rates AS
SELECT text,
       count(*)                                              AS searches,
       round(100.0 * count(clicked_at) / count(*), 1)        AS clicked_percent,
       round(avg(epoch(clicked_at) - epoch(searched_at)), 1) AS seconds_to_click
FROM searched
WHERE text IS NOT NULL
GROUP BY text
ORDER BY searches DESC, text;
