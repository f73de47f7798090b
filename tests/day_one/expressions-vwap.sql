-- expect: accepted
CREATE STREAM ticks (symbol STRING NOT NULL, price DECIMAL(18,6), qty BIGINT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 SECOND);
CREATE MATERIALIZED VIEW vwap AS SELECT symbol, max(price) - min(price) AS spread, sum(price * qty) / sum(qty) AS vwap FROM ticks GROUP BY symbol, window(at, '1 minute') HAVING sum(qty) > 0 ORDER BY vwap DESC NULLS LAST;
