-- expect: accepted
CREATE STREAM events (payload STRING, kind STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE MATERIALIZED VIEW users AS
SELECT payload->'user'->>'id' AS id, payload->>'country' AS country, payload->'tags'->>0 AS first_tag, JSON_VALUE(payload, '$.plan') AS plan, (payload->>'amount')::int > 10 AS big, count() AS n
FROM events GROUP BY 1, 2, 3, 4, 5, window(at, '1 minute');
