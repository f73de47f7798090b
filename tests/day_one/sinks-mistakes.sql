-- expect: refused, the message names: did you mean 'traffic'? | the connector 'kafka' has no option 'topik' | did you mean 'topic'? | the connector 'kafak' is unknown | did you mean 'kafka'? | events of stream 'visits' never change | write FORMAT APPEND | view 'totals' has no window | the connector 'kafka' has no mode 'complete' | the option 'url' of the connector 'http' is missing | did you mean 'hits'? | CREATE SINK i AS is not available | rows of view 'traffic' change
CREATE STREAM visits (page STRING, status INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS);
CREATE MATERIALIZED VIEW traffic AS SELECT page, count(*) AS hits FROM visits GROUP BY page, window(at, '1 minute');
CREATE MATERIALIZED VIEW totals AS SELECT page, count(*) AS hits FROM visits GROUP BY page;
CREATE SINK a FROM trafic WITH (connector = 'files', path = 'out');
CREATE SINK b FROM traffic WITH (connector = 'kafka', topik = 'x', brokers = 'b:9092');
CREATE SINK c FROM traffic WITH (connector = 'kafak', topic = 'x', brokers = 'b:9092');
CREATE SINK d FROM visits WITH (connector = 'files', path = 'out') FORMAT UPSERT ENCODE JSON;
CREATE SINK e FROM totals WITH (connector = 'files', path = 'out') EMIT ON WINDOW CLOSE;
CREATE SINK f FROM traffic WITH (connector = 'kafka', topic = 'x', brokers = 'b:9092', mode = 'complete');
CREATE SINK g FROM traffic WITH (connector = 'http');
CREATE SINK h FROM traffic WHERE hitz > 3 WITH (connector = 'files', path = 'out');
CREATE SINK i AS SELECT page FROM traffic WITH (connector = 'files', path = 'out');
CREATE SINK j FROM traffic WITH (connector = 'files', path = 'out') FORMAT APPEND ENCODE JSON EMIT CHANGES;
