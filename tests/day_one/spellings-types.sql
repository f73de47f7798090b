-- expect: accepted
CREATE STREAM trades (id INT8 NOT NULL, symbol VARCHAR(12), name CHARACTER VARYING(80), venue TEXT, price NUMERIC(12,4), qty INT4, fee REAL, ratio FLOAT8, flags TINYINT, live BOOL, note NVARCHAR, at TIMESTAMPTZ NOT NULL, seen TIMESTAMP(6) WITHOUT TIME ZONE, day DATE, WATERMARK FOR at AS at - INTERVAL '2' SECOND);
CREATE MATERIALIZED VIEW volumes AS SELECT symbol, sum(qty) AS qty, sum(price * qty) AS turnover, max(fee) AS fee FROM trades GROUP BY symbol, window(at, '1 minute');
