-- expect: refused, the message names: 'a' reads 'b', 'b' reads 'a' | did you mean 'clicks'? | UNION ALL | 'c' has no field 'usr'; did you mean 'user' | the types of column 'ms' are not compatible | a materialized view
CREATE STREAM clicks (user STRING, ms BIGINT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE STREAM a AS SELECT * FROM b;
CREATE STREAM b AS SELECT * FROM a WHERE ms > 5;
CREATE STREAM c AS SELECT * FROM click;
CREATE STREAM d AS SELECT user FROM clicks UNION SELECT user FROM clicks;
CREATE STREAM e AS SELECT c.usr FROM clicks c;
CREATE STREAM f AS SELECT ms FROM clicks UNION ALL SELECT user FROM clicks;
CREATE STREAM g AS SELECT DISTINCT user FROM clicks;
