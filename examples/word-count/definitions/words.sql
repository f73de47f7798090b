CREATE STREAM lines (value STRING) FORMAT TEXT;

CREATE STREAM words AS
SELECT lower(word) AS word
FROM (SELECT explode(split(value, '[^A-Za-z]+')) AS word FROM lines)
WHERE word <> '';

CREATE MATERIALIZED VIEW word_count AS
SELECT word, count(*) AS n FROM words GROUP BY word ORDER BY n DESC;
