-- expect: accepted
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW places AS
SELECT SUBSTRING(path FROM 2) AS rest, TRIM(LEADING '/' FROM path) AS bare, POSITION('/' IN path) AS slash, UPPER(LEFT(host, 3)) || '-' || CHAR_LENGTH(host)::text AS code, EXTRACT(DOW FROM at) AS dow, EXTRACT(YEAR FROM at) AS year, count(*) AS n
FROM requests WHERE path IS DISTINCT FROM '/health' AND host NOT ILIKE '%test%' AND status != 304
GROUP BY 1, 2, 3, 4, 5, 6, window(at, '1 hour');
