-- expect: refused, the message names: headrace.toml | hr.udf | found by its keys | a workspace is one folder | secret:NAME | write the type where it is used | JOIN looks its rows up | window(at, '1 minute') | headrace watch VIEW | views are always up to date | ENVELOPE UPSERT is a table | CREATE STREAM kafka_src (value STRING)
SET 'pipeline.name' = 'job';
CREATE FUNCTION gcd(int, int) RETURNS int LANGUAGE python AS $$
def gcd(a, b):
    return a; # {
$$;
CREATE TEMPORARY FUNCTION upper2 AS 'com.example.Upper' LANGUAGE JAVA;
CREATE INDEX idx ON top(page);
CREATE CATALOG c WITH ('type' = 'hive');
CREATE SECRET pw AS 'abc';
CREATE TYPE address AS STRUCT<number INTEGER, street VARCHAR>;
CREATE DICTIONARY d (id UInt64) PRIMARY KEY id SOURCE(CLICKHOUSE(TABLE 'x')) LAYOUT(HASHED()) LIFETIME(300);
CREATE WINDOW VIEW wv AS SELECT count(*) FROM hits GROUP BY tumble(at, INTERVAL '10' SECOND) AS w;
CREATE SOURCE CONNECTOR jdbc WITH ('connector.class' = 'io.confluent.connect.jdbc.JdbcSourceConnector');
CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 'data') FORMAT JSON ENVELOPE UPSERT;
CREATE TEMPORARY VIEW kafka_src USING kafka OPTIONS (subscribe 'topic1');
SUBSCRIBE TO recent;
CACHE TABLE x;
