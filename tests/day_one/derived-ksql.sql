-- expect: refused, the message names: CREATE STREAM pageviews_female AS SELECT users_id, pageid FROM pageviews WHERE gender = 'F' | an aggregate needs other events | CREATE MATERIALIZED VIEW totals AS
CREATE STREAM pageviews (users_id STRING, pageid STRING, gender STRING, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts);
CREATE STREAM pageviews_female WITH (kafka_topic = 'female', value_format = 'json') AS SELECT users_id, pageid FROM pageviews WHERE gender = 'F' EMIT CHANGES;
CREATE STREAM totals AS SELECT pageid, count(*) AS n FROM pageviews GROUP BY pageid;
