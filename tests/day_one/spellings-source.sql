-- expect: accepted
CREATE SOURCE IF NOT EXISTS bids (auction BIGINT, price DOUBLE PRECISION COMMENT 'in euros', bid_time TIMESTAMP WITH TIME ZONE, WATERMARK FOR bid_time AS bid_time - INTERVAL '4 seconds');
CREATE TABLE asks (auction BIGINT, price DOUBLE, ask_time TIMESTAMP(3), WATERMARK FOR ask_time AS ask_time - INTERVAL '4' SECOND);
CREATE MATERIALIZED VIEW IF NOT EXISTS highest AS SELECT auction, max(price) AS price FROM bids GROUP BY auction, TUMBLE(bid_time, INTERVAL '10' SECOND);
CREATE MATERIALIZED VIEW lowest AS SELECT auction, min(price) AS price FROM asks GROUP BY auction, TUMBLE(ask_time, INTERVAL '10' SECOND);
