CREATE STREAM messages (
  author STRING NOT NULL,
  text   STRING,
  at     TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 30 SECONDS
);

CREATE STREAM words AS
SELECT lower(word) AS word, author, at
FROM (SELECT explode(split(text, '[^A-Za-z#]+')) AS word, author, at FROM messages)
WHERE length(word) > 3;

CREATE MATERIALIZED VIEW words_per_minute AS
SELECT word, count(*) AS n, count(DISTINCT author) AS authors
FROM words
GROUP BY word, window(at, '1 minute');

CREATE VIEW trending AS
SELECT window_start, word, n, authors
FROM (SELECT *, row_number() OVER (PARTITION BY window_start ORDER BY authors DESC, n DESC, word) AS place
      FROM words_per_minute)
WHERE place <= 3
ORDER BY window_start, place;
