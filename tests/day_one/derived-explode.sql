-- expect: accepted
CREATE STREAM carts (id STRING, lines ARRAY<STRUCT<sku: STRING, qty: INT, price: DECIMAL(10,2)>>, attrs MAP<STRING, STRING>, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE STREAM sold AS SELECT c.id, l.sku, l.qty * l.price AS amount, n FROM carts c CROSS JOIN UNNEST(c.lines) WITH ORDINALITY AS t(l, n) WHERE l.qty > 0;
CREATE MATERIALIZED VIEW by_sku AS SELECT sku, sum(amount) AS amount, count(DISTINCT id) AS carts FROM sold GROUP BY sku, TUMBLE(at, INTERVAL '1' HOUR);
CREATE MATERIALIZED VIEW by_attr AS SELECT k, v, count(*) AS n FROM carts LATERAL VIEW OUTER explode(attrs) a AS k, v GROUP BY k, v;
CREATE MATERIALIZED VIEW flink AS SELECT sku, sum(qty) AS qty FROM carts, UNNEST(lines) AS t (sku, qty, price) GROUP BY sku, window(at, '1 day');
CREATE MATERIALIZED VIEW words AS WITH w AS (SELECT posexplode(split(id, '-')) AS (place, word), at FROM carts) SELECT word, min(place) AS first_place, count(*) AS n FROM w WHERE length(word) > 1 GROUP BY word;
