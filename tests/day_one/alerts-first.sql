-- expect: accepted
CREATE STREAM visits (page STRING, status INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS);
CREATE MATERIALIZED VIEW health AS SELECT page, count(*) AS hits, 100.0 * count_if(status >= 500) / count(*) AS error_rate FROM visits GROUP BY page, window(at, '1 minute');
CREATE ALERT errors AS SELECT page, error_rate FROM health WHERE error_rate > 5 AND hits > 100 FOR INTERVAL 2 MINUTES;
CREATE ALERT any_error AS SELECT * FROM health WHERE error_rate > 0 WITH (webhook = 'http://localhost:9000/alerts');
CREATE ALERT quiet ON STREAM visits WHEN ABSENT FOR INTERVAL 5 MINUTES;
CREATE ALERT still ON VIEW health WHEN ABSENT FOR '10 minutes' WITH (webhook = 'http://localhost:9000/alerts');
