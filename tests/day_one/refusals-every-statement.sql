-- expect: refused, the message names: refusals-every-statement.sql:3: | refusals-every-statement.sql:4: | refusals-every-statement.sql:5: | refusals-every-statement.sql:6: | 'count' | 'status' | fortnite | 'requests'
CREATE STREAM requests (host STRING NOT NULL, path STRING, status INT, ms DOUBLE, bytes BIGINT, client STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW a AS SELECT host, coutn(*) AS n FROM requests GROUP BY host, window(at, '1 minute');
CREATE MATERIALIZED VIEW b AS SELECT host count(*) AS n FROM FROM requests GROUP BY host;
CREATE MATERIALIZED VIEW c AS SELECT host, sum(statsu) AS s FROM requests GROUP BY host, window(at, '1 fortnite');
CREATE MATERIALIZED VIEW d AS SELECT host, count(*) AS n FROM request GROUP BY host;
