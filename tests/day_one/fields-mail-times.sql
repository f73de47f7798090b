-- expect: accepted
CREATE STREAM mail (sender STRING, sent STRING, size BIGINT,
  at TIMESTAMP AS to_timestamp(sent, 'd MMM yyyy HH:mm:ss Z'),
  WATERMARK FOR at AS at - INTERVAL 1 HOUR);
CREATE MATERIALIZED VIEW senders AS SELECT sender, count(*) AS n, sum(size) AS bytes FROM mail GROUP BY sender, window(at, '1 day');
