"""What a message suggests works: it is written in place of the mistake, and the definitions are read again."""

# ruff: noqa: E501 - one definition per line

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

import headrace
from headrace.aggregate import REGISTRY
from headrace.define.catalog import Catalog, parse
from headrace.errors import DefinitionError
from headrace.language.foreign.foreign_functions import AGGREGATES, FUNCTIONS
from headrace.language.functions import FUNCTIONS as OUR_FUNCTIONS
from headrace.language.source_text import each
from headrace.serve.question import Question
from tests import wording

STREAM = (
    "CREATE STREAM requests (host STRING, path STRING, status INT, ms DOUBLE, bytes BIGINT, payload STRING, ok BOOLEAN, tags ARRAY<STRING>, "
    "price DECIMAL(10,2), day DATE, sent TIMESTAMP, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);\n"
)
VIEW = "CREATE MATERIALIZED VIEW v AS "
BY_HOUR = "FROM requests GROUP BY host, window(at, '1 hour')"
MOST_MISTAKES = 9
PACKAGE = Path(headrace.__file__).parent

SLIPS = [
    f"{VIEW}SELCT host, count(*) AS n FROM requests GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FRM requests GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests GRUOP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests WHRE ok GROUP BY host",
    f"{VIEW}SELECT host count(*) AS n FROM requests GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n, FROM requests GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests GROUP BY host,",
    f"{VIEW}SELECT host, count(* AS n FROM requests GROUP BY host",
    f"{VIEW}SELECT host, max(round(ms, 1) AS m FROM requests GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE status IN (200, 304 GROUP BY host",
    "CREATE MATERIALISED VIEW v AS SELECT host, count(*) AS n FROM requests GROUP BY host",
    "CREATE STREEM s (a INT)",
    "CREATE STREAM s (a INT, b ARRAY<INT)",
    "CREATE STREAM s (a INT, b INT,)",
    "CREATE STREAM s (a INT, b INT",
    "CREATE STREAM s (a VARCHAR KEY, b INT)",
    "CREATE STREAM s (a INT b TIMESTAMP)",
    "CREATE STREAM s (a INT, select INT, from STRING)",
    "CREATE STREAM my-stream (a INT)",
    "CREATE TABEL s (a INT PRIMARY KEY, b INT)",
    "CREATE OR REPLACE TABEL s (a INT PRIMARY KEY, b INT)",
    "CREATE MATERIALIZED VEW v AS SELECT host, count(*) AS n FROM requests GROUP BY host",
    "CREATE STREAM db.s (a INT)",
    f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE host == 'a' && ok GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE host IS 'a' AND path IS NOT 'b' GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests GROUP BY host, time_bucket(at, '1 hour')",
    "CREATE STREAM s (a Nullable(String), b UInt64) ENGINE = MergeTree() ORDER BY a",
    "CREATE MATERIALIZED VIEW v TO target AS SELECT host, count() AS n FROM requests GROUP BY host",
    "CREATE MATERIALIZED VIEW v WITH (timescaledb.continuous) AS SELECT host, count(*) AS n FROM requests GROUP BY host WITH NO DATA",
    f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE at > current_date - 7 GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM STREAM(requests) WATERMARK at DELAY OF INTERVAL 10 MINUTES AS r GROUP BY host",
    "CREATE VIEW v AS SELECT host, count(*) AS n FROM TABLE(TUMBLE(TABLE requests, DESCRIPTOR(at), INTERVAL '1' HOUR)) GROUP BY host, window_start",
    "CREATE VIEW v AS SELECT host, count(*) AS n FROM HOP(requests, at, INTERVAL '1 MINUTE', INTERVAL '5 MINUTES') GROUP BY host, window_start",
    "CREATE TABLE s (a INT, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY",
]  # fmt: skip
WHOLE = [  # the error has `write`, and the place where to write it
    f"{VIEW}SELECT * FROM requests WHERE status >= 500",
    f"{VIEW}SELECT r.* EXCEPT (tags), ms / 1000 AS s FROM requests r",
    "INSERT INTO d SELECT host, path FROM requests WHERE ok",
    "CREATE TABLE d AS SELECT host, lower(path) AS path FROM requests",
    "CREATE STREAM d AS SELECT host, count(*) AS n FROM requests GROUP BY host",
    "CREATE STREAM d AS SELECT host FROM request",
    "CREATE STREAM d AS SELECT hots FROM requests",
    "CREATE STREAM d AS SELECT host FROM requests UNION SELECT path FROM requests",
    "CREATE STREAM d WITH (kafka_topic = 'd', value_format = 'json') AS SELECT * FROM requests WHERE ok EMIT CHANGES",
    "CREATE STREAM d AS SELECT host, path FROM requests WHERE status LIKE '5%' PARTITION BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM (SELECT host, at AS time FROM requests) GROUP BY host, window(at, '1 hour')",
    f"{VIEW}SELECT host, count(*) AS n FROM (SELECT host, sent, at FROM requests) GROUP BY host, window(sent, '1 hour')",
    f"{VIEW}WITH a AS (SELECT hots FROM requests) SELECT host, count(*) AS n FROM a GROUP BY host",
    f"{VIEW}SELECT hots, count(*) AS n FROM requests GROUP BY hots",
    f"{VIEW}SELECT host, coutn(*) AS n {BY_HOUR}",
    f"{VIEW}SELECT host, count(*) AS n FROM request GROUP BY host",
    f'{VIEW}SELECT host, count(*) AS n FROM requests WHERE path = "/a" GROUP BY host',
    f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE lower(status) = 'a' GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE path + 1 > 2 GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE status LIKE '5%' GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE payload->'a' = 'b' GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE CAST(day AS INT) > 1 GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests GROUP BY host, window(sent, '1 hour')",
    f"{VIEW}SELECT host, sumIf(bytes, status = 200) AS b, avgIf(ms, ok) AS m {BY_HOUR}",
    f"{VIEW}SELECT DISTINCT host, path FROM requests WHERE ok",
    f"{VIEW}SELECT host, count(*) AS n FROM requests GROUP BY host EMIT CHANGES",
    f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE at > now() - INTERVAL '1 hour' GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE ok AND at >= current_timestamp - INTERVAL 5 MINUTES AND status = 200 GROUP BY host",
    f"{VIEW}SELECT date_trunc('hour', at) AS h, count(*) AS n FROM requests WHERE at > now() - INTERVAL 1 DAY GROUP BY h",
    f"{VIEW}SELECT count(*) AS n FROM requests WHERE at BETWEEN now() - INTERVAL '1' DAY AND now()",
    "CREATE VIEW v AS SELECT host, count(*) AS n FROM requests GROUP BY host",
    "CREATE TABLE v AS SELECT host, count(*) AS n FROM requests GROUP BY host",
    "CREATE OR REPLACE TABLE v WITH (kafka_topic='v') AS SELECT host, count(*) AS n FROM requests WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY host EMIT CHANGES",
    "CREATE TABLE v AS SELECT count(*) AS n FROM requests WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES, GRACE PERIOD 10 MINUTES) WHERE ok EMIT FINAL",
    "CREATE TABLE v AS SELECT r.host, argMax(ms, at) AS last_ms FROM requests r WINDOW TUMBLING (SIZE 30 SECONDS) GROUP BY r.host EMIT CHANGES",
    f"{VIEW}SELECT host, count() AS n FROM requests FINAL PREWHERE ok GROUP BY host",
    f"{VIEW}SELECT host, count() AS n FROM requests SAMPLE 0.1 WHERE ok GROUP BY host",
    "CREATE LIVE TABLE v AS SELECT host, count(*) AS n FROM requests GROUP BY host",
    "CREATE TEMPORARY VIEW v AS SELECT host, count(*) AS n FROM requests GROUP BY host",
    "CREATE MATERIALIZED VIEW v IN CLUSTER quick AS SELECT host, count(*) AS n FROM requests GROUP BY host",
    f"{VIEW}SELECT host, uniqIf(path, ok) AS u, argMaxIf(path, at, ok) AS p {BY_HOUR}",
    "CREATE TABLE v AS SELECT host, WINDOWSTART AS ws, COUNT(*) AS n, WINDOWEND AS we FROM requests WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 7 DAYS) GROUP BY host HAVING COUNT(*) > 3 EMIT CHANGES",
    "INSERT INTO per_host SELECT host, count(*) AS n FROM requests GROUP BY host",
    "CREATE TABLE t (a INT, b STRING)",
    "CREATE STREAM s (a BYTES, b STRNG, c TIME)",
    "CREATE STREAM s (a INT PRIMARY KEY, b INT)",
    "CREATE STREAM s (a INT, b INT, PRIMARY KEY (a, b) NOT ENFORCED)",
    "CREATE STREAM s (a INT DEFAULT 5, b INT)",
    "CREATE STREAM s (a INT, at TIMESTAMP, WATERMARK FOR at AS at - 5)",
    "CREATE STREAM s (a INT) WITH ('connector' = 'kafka', 'format' = 'json')",
    "CREATE STREAM s (a INT) WITH (connector = 'kafak', topc = 't', properties.sasl.usernam = 'x', 'zzz' = 5)",
    "CREATE STREAM s (a INT) WITH (topic = 't', PARTITIONS = 6, security.protocol = 'ssl')",
    "CREATE STREAM s (a INT) WITH (zzz = 't', kafka_topic = 's', enable.auto.commit = 'true')",
    "CREATE STREAM s (a INT) WITH (kafka_topic = 's', value_format = 'json', properties.x = 'y')",
    f"{VIEW}SELECT host, median(ms) AS m, mode(path) AS p, uniq(path) AS u, argMax(path, at) AS last {BY_HOUR}",
    f"{VIEW}SELECT host, percentile_cont(0.9) WITHIN GROUP (ORDER BY ms) AS p, quantile(0.5)(ms) AS q, quantiles(0.1, 0.9)(ms) AS r {BY_HOUR}",
    f"{VIEW}SELECT host, string_agg(path, ',' ORDER BY at DESC) AS s, array_agg(DISTINCT path) AS a, topK(3)(path) AS t {BY_HOUR}",
    f"{VIEW}SELECT host, last(path, at) AS l, first(path, at) FILTER (WHERE ok) AS f, approx_count_distinct(path, 0.01) AS u {BY_HOUR}",
    f"{VIEW}SELECT host, latest_by_offset(path) AS l, first_value(ms) AS f, any(ok) AS a, every(ok) AS e {BY_HOUR}",
]  # fmt: skip
OTHERS = (
    "CREATE STREAM replies (host STRING, path STRING, ms DOUBLE, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);\n"
    "CREATE MATERIALIZED VIEW per_minute AS SELECT host, count(*) AS n FROM requests GROUP BY host, window(at, '1 minute');\n"
    "CREATE TABLE latest PRIMARY KEY (host) AS SELECT * FROM requests;\n"
    "CREATE STREAM `web events` (page STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);\n"
)
NUMBERED = "SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY {}) AS rn FROM requests"
LATER = [  # what is not available yet, and views over views: the error has what to write meanwhile
    "CREATE TABLE v AS SELECT host, COUNT(*) AS n FROM requests WINDOW SESSION (30 MINUTES, RETENTION 1 DAY) GROUP BY host EMIT CHANGES",
    "CREATE STREAM d AS SELECT r.host, p.ms FROM requests r JOIN replies p ON r.host = p.host AND p.at BETWEEN r.at AND r.at + INTERVAL 1 HOUR",
    "CREATE STREAM d AS SELECT requests.host, replies.ms FROM requests JOIN replies USING (host)",
    "CREATE STREAM d AS SELECT r.host, p.ms FROM requests r LEFT JOIN replies p WITHIN 1 HOUR ON r.host = p.host",
    "CREATE STREAM d AS SELECT r.host, p.ms FROM requests r JOIN replies p WITHIN (1 HOUR, 2 HOURS) ON r.host = p.host AND r.path = p.path",
    "CREATE STREAM d AS SELECT r.host FROM requests r JOIN `web events` w ON r.path = w.page",
    "CREATE STREAM d AS SELECT a.host, b.path FROM requests a JOIN requests b ON a.host = b.host AND b.at BETWEEN a.at AND a.at + INTERVAL '5' MINUTE",
    "CREATE STREAM d AS SELECT r.host FROM requests r WHERE NOT EXISTS (SELECT 1 FROM replies p WHERE p.host = r.host)",
    "CREATE STREAM d AS SELECT r.host, p.ms FROM requests r ASOF JOIN replies p MATCH_CONDITION (r.at >= p.at) ON r.host = p.host",
    "CREATE STREAM d AS SELECT r.host, p.ms FROM requests r ASOF LEFT JOIN replies AS p ON r.host = p.host AND r.at >= p.at",
    "CREATE STREAM d AS SELECT r.host, replies.ms FROM requests r ASOF JOIN replies ON r.host = replies.host AND replies.at < r.at",
    f"CREATE STREAM d AS SELECT host, ms, rn FROM ({NUMBERED.format('ms DESC')}) WHERE rn <= 3",
    f"CREATE STREAM d AS SELECT t.path, upper(t.path) AS p, t.rn FROM ({NUMBERED.format('ms')}) t WHERE t.rn <= 5",
    f"CREATE STREAM d AS SELECT t.path, t.ms FROM ({NUMBERED.format('at DESC')}) AS t WHERE rn <= 1",
    f"CREATE STREAM `d d` AS SELECT * FROM ({NUMBERED.format('ms DESC, path')}) t WHERE t.rn < 4",
    f"CREATE STREAM d AS SELECT host, path FROM ({NUMBERED.format('at ASC')}) WHERE rn = 1",
    f"CREATE STREAM d AS SELECT host, path, ms FROM ({NUMBERED.format('at DESC')}) WHERE rn = 1",
    f"{VIEW}SELECT host, sum(ms) AS total FROM requests GROUP BY host, window(at, '1 hour') QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY total DESC) <= 10",
    "CREATE STREAM d AS SELECT * FROM requests MATCH_RECOGNIZE (PARTITION BY host ORDER BY at MEASURES A.at AS a PATTERN (A{3,} B) WITHIN INTERVAL '10' MINUTE DEFINE B AS B.ms > A.ms)",
    "CREATE STREAM d AS SELECT * FROM `web events` MATCH_RECOGNIZE (ORDER BY at PATTERN (A B) DEFINE B AS true)",
    f"{VIEW}SELECT host, sum(n) AS n FROM per_minute GROUP BY host, window(window_start, '1 hour')",
    f"{VIEW}SELECT window_start, window_end AS e, max(n) AS n FROM per_minute GROUP BY TUMBLE(window_start, INTERVAL '1' DAY)",
    f"{VIEW}SELECT host, window(window_start, '1 hour').start AS h, sum(n) AS n FROM per_minute GROUP BY host, h",
    f"{VIEW}SELECT window(`window_start`, '1 hour').start AS h, window.end AS e, sum(n) AS n FROM per_minute GROUP BY window(`window_start`, '1 hour')",
    f"{VIEW}SELECT TUMBLE_START(window_start, INTERVAL '1' HOUR) AS h, TUMBLE_END(window_start, INTERVAL '1' HOUR) AS e, sum(n) AS n FROM per_minute GROUP BY TUMBLE(window_start, INTERVAL '1' HOUR)",
    "CREATE MATERIALIZED VIEW `v v` SCHEDULE EVERY 1 HOUR AS SELECT `host`, sum(n) AS n FROM per_minute GROUP BY host",
    "CREATE TEMPORARY VIEW v AS SELECT host, sum(n) AS n FROM per_minute GROUP BY host",
    "CREATE VIEW `v v` AS SELECT page, count(*) AS n FROM `web events` GROUP BY page",
    "CREATE VIEW v AS SELECT page FROM \"web events\"",
    "CREATE MATERIALIZED VIEW `v v` AS SELECT * FROM `web events`",
    "INSERT INTO `v v` SELECT page, count(*) AS n FROM `web events` GROUP BY page",
]  # fmt: skip
OTHER_SYSTEMS = [  # statements that have one mistake; what its message proposes is accepted as it stands
    "CREATE VIEW top AS SELECT host, path, ms FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY ms DESC) AS rn FROM requests) WHERE rn <= 5",
    "CREATE VIEW once AS SELECT host, path FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY host ORDER BY at ASC) AS rn FROM requests) WHERE rn = 1",
    "CREATE VIEW top AS SELECT at, ms, host, window_start, rn FROM (SELECT at, ms, host, window_start, ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY ms DESC) AS rn FROM TABLE(TUMBLE(TABLE requests, DESCRIPTOR(at), INTERVAL '10' MINUTES))) WHERE rn <= 3",
    f"{VIEW}SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY price DESC) AS rn FROM (SELECT window_start, host, SUM(price) AS price FROM TABLE(TUMBLE(TABLE requests, DESCRIPTOR(at), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, host)) WHERE rn <= 3",
    "INSERT INTO best SELECT host, s, rn FROM (SELECT host, s, ROW_NUMBER() OVER (PARTITION BY h ORDER BY s DESC) AS rn FROM (SELECT host, TUMBLE_START(at, INTERVAL '1' HOUR) AS h, SUM(ms) AS s FROM requests GROUP BY host, TUMBLE(at, INTERVAL '1' HOUR))) WHERE rn <= 10",
    "CREATE MATERIALIZED VIEW v AS SELECT host, at, path FROM latest WHERE at > TIMESTAMP '2026-01-01' ORDER BY at DESC",
    f"{VIEW}SELECT * FROM requests QUALIFY row_number() OVER (PARTITION BY host ORDER BY at DESC) = 1",
    "CREATE VIEW v AS SELECT r.host, p.ms FROM requests r, replies p WHERE r.host = p.host AND r.at BETWEEN p.at - INTERVAL '4' HOUR AND p.at",
    "CREATE VIEW v AS SELECT r.host, count(*) AS n FROM requests r LEFT JOIN replies p ON r.host = p.host AND p.at <= r.at + interval 1 hour GROUP BY r.host, window(r.at, '1 hour')",
    f"{VIEW}SELECT r.host, r.ms, p.ms AS other FROM requests r ASOF LEFT JOIN replies p ON r.host = p.host AND r.at >= p.at",
    "CREATE STREAM d AS SELECT r.host, p.ms FROM requests r JOIN replies p WITHIN 1 HOURS GRACE PERIOD 15 MINUTES ON r.host = p.host EMIT CHANGES",
    "CREATE VIEW v AS SELECT window_start, host, SUM(ms) AS s FROM TABLE(SESSION(TABLE requests PARTITION BY host, DESCRIPTOR(at), INTERVAL '5' MINUTES)) GROUP BY host, window_start, window_end",
    "CREATE OR REPLACE VIEW v AS SELECT session_window(at, '5 minutes') AS w, host, count(*) AS n FROM requests GROUP BY session_window(at, '5 minutes'), host",
    f"{VIEW}SELECT window(at, '5 minutes') AS w, host, count(*) AS events FROM requests GROUP BY window(at, '5 minutes'), host",
    f"{VIEW}SELECT window(at, '5 minutes').start AS start, window.end AS end, count(*) AS n FROM requests GROUP BY window(at, '5 minutes')",
    "SELECT host, count(*) AS n FROM requests WINDOW TUMBLING (SIZE 5 MINUTES) GROUP BY host EMIT CHANGES",
    "SELECT * FROM requests MATCH_RECOGNIZE (PARTITION BY host ORDER BY at MEASURES A.ms AS a PATTERN (A B{2,}) WITHIN INTERVAL '1' MINUTE DEFINE A AS A.ms < 1) AS m",
    "SELECT host, sum(n) AS n FROM per_minute GROUP BY host",
    "INSERT INTO replies SELECT host, path, ms FROM requests",
    "INSERT INTO per_minute SELECT host, count(*) AS n FROM requests GROUP BY host",
    "CREATE SINK s AS SELECT host, count(*) AS n FROM requests GROUP BY host WITH (connector = 'files', path = 'out')",
    f"{VIEW}SELECT host, path, count(*) AS n FROM requests GROUP BY host, path ORDER BY n DESC LIMIT 3 BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests SAMPLE 1/10 OFFSET 1/2 GROUP BY host",
    f"{VIEW}SELECT host, count(*) AS n FROM requests GROUP BY host WITH TOTALS",
    "CREATE LIVE VIEW v WITH REFRESH 5 AS SELECT count(*) AS n FROM requests",
    "CREATE STREAM s (a INT) ENGINE = Kafka SETTINGS kafka_topic_list = 'a,b', kafka_broker_list = 'localhost:9092', kafka_format = 'JSONEachRow'",
    "CREATE STREAM s (a INT) ENGINE = Kafka('localhost:9092', 'a', 'group', 'JSONEachRow')",
    "CREATE STREAM s (a INT CODEC(Delta, ZSTD), b STRING)",
    "CREATE STREAM s (a INT, at TIMESTAMP) USING delta PARTITIONED BY (at) LOCATION '/data'",
    "CREATE TABLE s (a INT, at TIMESTAMP, WATERMARK FOR at AS at) WITH ('connector' = 'print')",
    "CREATE TABLE s (a INT, at TIMESTAMP, WATERMARK FOR at AS at) WITH ('connector' = 'datagen', 'rows-per-second' = '10')",
    "CREATE TABLE s (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'mysql-cdc', 'hostname' = 'localhost', 'port' = '3306')",
    "CREATE TABLE s (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 's')",
]  # fmt: skip
OTHER_SYSTEMS += [
    "APPLY CHANGES INTO target FROM STREAM(requests) KEYS (host) SEQUENCE BY at",
    "APPLY CHANGES INTO LIVE.target FROM stream(LIVE.requests) KEYS (host, path) APPLY AS DELETE WHEN ok SEQUENCE BY at COLUMNS (path, ms, at) STORED AS SCD TYPE 2",
    "CREATE FLOW f AS AUTO CDC INTO target FROM STREAM requests KEYS (`host`) SEQUENCE BY at COLUMNS * EXCEPT (tags) STORED AS SCD TYPE 1",
    "CREATE SOURCE users FROM KAFKA CONNECTION conn (TOPIC 'users') KEY FORMAT TEXT VALUE FORMAT JSON INCLUDE KEY AS k ENVELOPE UPSERT",
    "CREATE SOURCE lines IN CLUSTER c FROM KAFKA CONNECTION conn (TOPIC = 'lines', START OFFSET (0)) FORMAT TEXT",
    "CREATE SOURCE lines FROM KAFKA CONNECTION conn (TOPIC 'lines') FORMAT JSON INCLUDE TIMESTAMP AS ts, KEY, OFFSET, HEADERS, HEADER 'h' AS \"H h\"",
    "CREATE SOURCE lines FROM KAFKA CONNECTION conn (TOPIC 'lines') FORMAT TEXT INCLUDE HEADERS INCLUDE PARTITION AS p ENVELOPE UPSERT",
    "CREATE SOURCE lines FROM KAFKA CONNECTION conn (TOPIC 'lines') FORMAT JSON ENVELOPE DEBEZIUM",
    "CREATE TABLE t (a INT, PRIMARY KEY (a)) WITH (connector = 'kafka', topic = 't') FORMAT DEBEZIUM ENCODE JSON",
    "CREATE SINK s FROM per_minute INTO KAFKA CONNECTION conn (TOPIC 'out') KEY (host) FORMAT JSON ENVELOPE UPSERT",
    f"{VIEW}SELECT session_window(at, '5 minutes') AS s, host, count(*) AS n FROM requests GROUP BY s, host",
    f"{VIEW}SELECT session_window(at, CASE WHEN ok THEN '5 minutes' ELSE '1 hour' END) AS s, count(*) AS n FROM requests GROUP BY 1",
    f"{VIEW}SELECT session_window(at, '5 minutes') AS s, host, path, count(*) AS n FROM requests GROUP BY 1, 2, 3",
    f"{VIEW}SELECT session_window(at, '5 minutes') AS `my s`, count(*) AS n FROM requests GROUP BY session_window(at, '5 minutes')",
    f"{VIEW}SELECT s.start, s.end AS until, host, count(*) AS n FROM requests GROUP BY session_window(at, '5 minutes') AS s, host",
    f"{VIEW}SELECT host, window(at, '5 minutes') AS w, count(*) AS n FROM requests GROUP BY host, w",
    f"{VIEW}SELECT window(at, '5 minutes') AS w, host, count(*) AS n FROM requests GROUP BY 1, 2",
    f"{VIEW}SELECT window(at, '2 minutes').start AS w, count(*) AS n FROM requests GROUP BY window(at, '1 minute')",
    f"{VIEW}SELECT HOP_END(at, INTERVAL '1' MINUTE, INTERVAL '1' HOUR) AS e, count(*) AS n FROM requests GROUP BY HOP(at, INTERVAL '5' MINUTE, INTERVAL '1' HOUR)",
    "CREATE TEMPORARY TABLE t (id STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json')",
    "CREATE TEMPORARY TABLE t (a INT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json')",
    "CREATE TEMPORARY TABLE t PRIMARY KEY (host) AS SELECT host, path FROM requests",
    "CREATE OR REPLACE TEMP STREAM s AS SELECT host FROM requests",
    "CREATE TEMPORARY MATERIALIZED VIEW t AS SELECT host, count(*) AS n FROM requests GROUP BY host",
    "CREATE SINK s AS SELECT * FROM per_minute WITH (connector = 'files', path = 'out')",
    "CREATE SINK s AS SELECT host, n FROM per_minute WHERE n > 10 WITH (connector='jdbc', jdbc.url='jdbc:postgresql://h:5432/d?user=u&password=p', table.name='target', type='upsert', primary_key='host')",
    "CREATE TABLE users (id STRING, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='jdbc', 'url'='jdbc:mysql://h/d', 'table-name'='users');\nCREATE STREAM e AS SELECT r.host, u.name FROM requests r JOIN users FOR SYSTEM_TIME AS OF r.at AS u ON r.host = u.id",
    "CREATE TABLE users (id STRING, name STRING) WITH ('connector'='jdbc', 'url'='jdbc:mysql://h/d', 'table-name'='users');\nCREATE STREAM e AS SELECT r.host, u.name FROM requests r LEFT JOIN users u ON r.host = u.id AND u.name = r.path",
    "CREATE STREAM s (t BIGINT, a STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', TIMESTAMP='t')",
    "CREATE STREAM s (t VARCHAR, a STRING) WITH (TIMESTAMP='t', TIMESTAMP_FORMAT='yyyy-MM-dd HH:mm:ss', KAFKA_TOPIC='s')",
    "CREATE STREAM s (t TIMESTAMP, a STRING) WITH (KAFKA_TOPIC='s', TIMESTAMP='t', VALUE_FORMAT='JSON')",
    "CREATE MATERIALIZED VIEW v CLUSTER BY (host) AS SELECT host, count(*) AS n FROM requests GROUP BY host",
    "CREATE MATERIALIZED VIEW v (CONSTRAINT c EXPECT (n > 1) ON VIOLATION DROP ROW) AS SELECT host, count(*) AS n FROM requests GROUP BY host",
    "CREATE OR REFRESH STREAMING TABLE d (CONSTRAINT c EXPECT (status > 1) ON VIOLATION DROP ROW, CONSTRAINT e EXPECT (status IN (200, 304)) ON VIOLATION DROP ROW) CLUSTER BY AUTO AS SELECT host, status FROM STREAM(requests)",
    "CREATE STREAM d AS SELECT * FROM requests r JOIN replies p ON r.host = p.host AND p.at BETWEEN r.at AND r.at + INTERVAL 1 HOUR",
    "CREATE STREAM d AS SELECT * FROM replies JOIN latest l ON replies.host = l.host",
    "INSERT INTO requests SELECT host, path, at FROM replies",
    "INSERT INTO later SELECT host, path, at FROM replies; CREATE STREAM later (host STRING)",
    "CREATE STREAM d AS SELECT host FROM requests;\nINSERT INTO d SELECT host FROM replies WHERE ms > 1 EMIT CHANGES",
    "CREATE STREAM d AS SELECT host FROM requests;\nCREATE STREAM e AS SELECT host FROM d;\nINSERT INTO d SELECT host FROM replies",
]  # fmt: skip
SENTENCES = [  # the message says what to write instead of this part
    (f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE path = 5 GROUP BY host", "path"),
    (f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE status = '200' GROUP BY host", "'200'"),
    (f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE at > 1700000000 GROUP BY host", "1700000000"),
    (f"{VIEW}SELECT host, max(sent - at) AS m {BY_HOUR}", "sent - at"),
    (f"{VIEW}SELECT host, max(day - day) AS m {BY_HOUR}", "day - day"),
    (f"{VIEW}SELECT host, max(ms DIV 2) AS m {BY_HOUR}", "ms DIV 2"),
    (f"{VIEW}SELECT host, sum(path) AS s {BY_HOUR}", "path"),
    (f"{VIEW}SELECT host, path, count(*) AS n {BY_HOUR}", "path"),
    (f"{VIEW}SELECT host, max(CAST(bytes AS TIMESTAMP)) AS m {BY_HOUR}", "CAST(bytes AS TIMESTAMP)"),
    (f"{VIEW}SELECT host, max(CAST(at AS BIGINT)) AS m {BY_HOUR}", "CAST(at AS BIGINT)"),
]  # fmt: skip
PAIRS = ("argmax", "argmin", "arg_max", "arg_min", "maxby", "minby", "covarpop", "covarsamp")
ARGUMENTS = {
    "topkdistinct": "ms, 3",
    "topk": "ms, 3",
    **dict.fromkeys(("mode", "approx_mode", "approx_most_frequent", "topkweighted"), "path"),
    "avgweighted": "ms, bytes",
    "countif": "ok",
    "every": "ok",
    "logical_and": "ok",
    "logical_or": "ok",
}


def mistakes_of(text: str) -> list[DefinitionError]:
    try:
        parse(text)
    except DefinitionError as error:
        return each(error)
    return []


def follow(text: str) -> Catalog:
    """The definitions after each mistake was replaced by what its message suggests, one after the other."""
    for _ in range(MOST_MISTAKES):
        mistakes = mistakes_of(text)
        if not mistakes:
            return parse(text)
        mistake = next((mistake for mistake in mistakes if mistake.replaces), None)
        assert mistake is not None, f"{mistakes[0]} does not say what to write in {text}"
        assert mistake.write is not None
        start, end = mistake.replaces or (0, 0)
        text = text[:start] + mistake.write + text[end:]
    raise AssertionError(f"still refused: {mistakes_of(text)[0]}")


@pytest.mark.parametrize("statement", SLIPS + WHOLE)
def test_what_a_message_suggests_is_accepted(statement: str) -> None:
    mistakes = mistakes_of(STREAM + statement)
    assert mistakes, "it was accepted"
    wording.check("\n".join(map(str, mistakes)))
    follow(STREAM + statement)


@pytest.mark.parametrize("statement", LATER)
def test_what_to_write_meanwhile_is_accepted(statement: str) -> None:
    mistakes = mistakes_of(STREAM + OTHERS + statement)
    assert mistakes, "it was accepted"
    wording.check("\n".join(map(str, mistakes)))
    follow(STREAM + OTHERS + statement)


@pytest.mark.parametrize("statement", OTHER_SYSTEMS)
def test_what_a_message_proposes_is_accepted_as_it_stands(statement: str) -> None:
    text = STREAM + OTHERS + statement
    mistakes = mistakes_of(text)
    wording.check("\n".join(map(str, mistakes)))
    proposed = next(mistake for mistake in mistakes if mistake.replaces)
    start, end = proposed.replaces or (0, 0)
    assert mistakes_of(text[:start] + (proposed.write or "") + text[end:]) == [], str(proposed)
    written = re.search(r"CREATE (?:STREAM|TABLE|MATERIALIZED|VIEW) .*\Z", proposed.write or "")
    assert written is None or written[0] in str(proposed), "the message has the statement"


def test_a_window_over_another_time_reads_a_derived_stream() -> None:
    for time in ("sent", "_arrived"):
        (mistake,) = mistakes_of(f"{STREAM}{VIEW}SELECT count(*) AS n FROM requests GROUP BY window({time}, '1 hour')")
        parse(STREAM + str(mistake).rpartition("that event time: ")[2].splitlines()[0])


def test_functions_that_read_files_are_refused_with_what_to_do() -> None:
    (mistake,) = mistakes_of("CREATE STREAM s AS SELECT * FROM STREAM read_files('/data', format => 'json')")
    wording.check(mistake.message, "read_files(…)", "FROM")
    assert "`headrace send STREAM FILE`" in (mistake.fix or "")


def test_grace_period_is_the_patience_of_the_stream() -> None:
    text = "CREATE TABLE v AS SELECT count(*) AS n FROM requests WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 90 MINUTES)"
    (mistake,) = mistakes_of(STREAM + text)
    (watermark,) = re.findall(r"WATERMARK FOR .*?(?= in its CREATE STREAM)", str(mistake))
    patient = re.sub(r"WATERMARK FOR .*(?=\);)", watermark, STREAM)
    assert parse(patient).streams["requests"].patience_ms == 90 * 60_000


def test_unique_of_a_message_is_accepted() -> None:
    text = f"CREATE STREAM d AS SELECT host, path FROM ({NUMBERED.format('at')}) WHERE rn = 1"
    (mistake,) = mistakes_of(STREAM + text)
    (unique,) = re.findall(r"UNIQUE \(.*?\) WITHIN INTERVAL 1 DAY", str(mistake))
    (table,) = re.findall(r"CREATE TABLE .*", str(mistake))
    parse(STREAM.replace("WATERMARK", f"{unique}, WATERMARK") + (mistake.write or ""))
    parse(STREAM + table)


@pytest.mark.parametrize("rest", [
    "JOIN replies p ON r.host = p.host AND p.at BETWEEN r.at AND r.at + INTERVAL '1' HOUR",
    "JOIN replies p ON r.host = p.host AND (p.at >= r.at AND p.at < r.at + INTERVAL '1' HOUR)",
    "LEFT JOIN replies p ON r.host = p.host WHERE p.at BETWEEN r.at AND r.at + INTERVAL '1' HOUR",
    "JOIN replies p ON r.host = p.host AND r.at < p.at WHERE unix_millis(p.at) - unix_millis(r.at) < 1000 AND r.ok",
    ", replies p WHERE r.host = p.host AND r.at BETWEEN p.at - INTERVAL '1' HOUR AND p.at",
    "WHERE EXISTS (SELECT 1 FROM replies p WHERE p.host = r.host AND p.at > r.at) AND r.ok",
])  # fmt: skip
def test_a_join_to_latest_rows_has_no_condition_on_their_time(rest: str) -> None:
    text = f"{STREAM}{OTHERS}CREATE STREAM d AS SELECT r.path FROM requests r {rest}"
    (mistake,) = mistakes_of(text)
    assert mistake.write is not None
    parse(STREAM + OTHERS + mistake.write)
    assert "p.at" not in mistake.write
    assert ("r.ok" in mistake.write) == ("r.ok" in rest)
    wording.check(mistake.message)
    wording.check(mistake.message, "UNION ALL")


def test_the_first_rows_of_a_key_say_that_equal_rows_are_one() -> None:
    (mistake,) = mistakes_of(f"{STREAM}CREATE STREAM d AS SELECT * FROM ({NUMBERED.format('ms DESC')}) WHERE rn <= 2")
    wording.check(mistake.message)


@pytest.mark.parametrize("statement", [
    "INSERT INTO later SELECT * FROM replies; CREATE STREAM later (host STRING)",
    "CREATE STREAM later (host STRING); INSERT INTO later SELECT * FROM replies",
    "INSERT INTO requests SELECT * FROM replies",
])  # fmt: skip
def test_insert_into_a_stream_is_no_second_declaration(statement: str) -> None:
    (mistake,) = mistakes_of(STREAM + OTHERS + statement)
    wording.check(mistake, "INSERT", "UNION ALL", "CREATE STREAM")
    assert "declared twice" not in str(mistake)


def test_insert_into_a_derived_stream_is_part_of_its_query() -> None:
    derived = "CREATE STREAM d WITH (kafka_topic = 'd') AS SELECT host FROM requests EMIT CHANGES;\n"
    inserts = "INSERT INTO d SELECT host FROM replies EMIT CHANGES;\nINSERT INTO d SELECT path AS host FROM replies"
    catalog = follow(STREAM + OTHERS + derived + inserts)
    relation = catalog.streams["d"].relation
    assert relation is not None
    assert len(relation.branches) == 3


def test_insert_of_an_aggregate_is_a_view() -> None:
    statements = "CREATE STREAM d AS SELECT host FROM requests; INSERT INTO d SELECT count(*) AS n FROM replies"
    (mistake,) = mistakes_of(STREAM + OTHERS + statements)
    assert mistake.write == "CREATE MATERIALIZED VIEW d_rows AS SELECT count(*) AS n FROM replies"
    wording.check(mistake)


def test_expectations_that_drop_rows_are_a_condition() -> None:
    constraint = "CONSTRAINT c EXPECT (status > 1) ON VIOLATION DROP ROW, CONSTRAINT d EXPECT (ok)"
    query = "SELECT host, status FROM requests"
    (mistake,) = mistakes_of(f"{STREAM}CREATE STREAM s ({constraint}) AS {query}")
    assert mistake.write == f"CREATE STREAM s AS {query} WHERE (status > 1)"
    (mistake,) = mistakes_of(f"{STREAM}CREATE STREAM s ({constraint}) AS {query} WHERE ok OR status = 5")
    assert mistake.write == f"CREATE STREAM s AS {query} WHERE ok OR status = 5"
    assert "WHERE leaves out the rows that violate it" in mistake.message


def test_the_row_before_is_no_row_of_the_first_ones() -> None:
    (mistake, *_) = mistakes_of(
        f"{STREAM}{VIEW}SELECT host, lag(ms) OVER (PARTITION BY host ORDER BY at) FROM requests"
    )
    assert "CREATE VIEW over it may have lag(…) OVER" in str(mistake)
    assert "LIMIT" not in str(mistake)


def test_a_join_of_all_columns_names_each_once() -> None:
    joined = "SELECT * FROM replies p JOIN latest ON p.host = latest.host"
    (mistake,) = mistakes_of(f"{STREAM}{OTHERS}CREATE STREAM d AS {joined}")
    assert mistake.write is not None
    wording.check(mistake.write, "EXCEPT", "AS", "latest_host")
    (mistake,) = mistakes_of(f"{STREAM}{OTHERS}CREATE STREAM d AS {joined.replace('latest', 'requests')}")
    wording.check(mistake.message, "requests")


def test_a_proposal_that_leads_back_to_the_statement_is_none() -> None:
    joined = "SELECT p.host, max(p.n) AS n FROM per_minute p JOIN requests r ON p.host = r.host GROUP BY p.host"
    for created in ("MATERIALIZED VIEW", "VIEW"):
        (mistake,) = mistakes_of(f"{STREAM}{OTHERS}CREATE {created} v AS {joined}")
        assert (mistake.write, mistake.replaces) == (None, None)
        wording.check(mistake, "CREATE VIEW")


@pytest.mark.parametrize("created", ["MATERIALIZED VIEW", "STREAM", "VIEW"])
def test_sessions_of_over_are_refused_as_such(created: str) -> None:
    call = "first_value(at) OVER (PARTITION BY host ORDER BY at SESSION WITH GAP INTERVAL '5 minutes')"
    (mistake,) = mistakes_of(f"{STREAM}CREATE {created} v AS SELECT host, {call} AS s FROM requests")
    wording.check(mistake, "session_window")
    assert "'5 minutes')" in str(mistake)


def test_a_session_without_arguments_is_refused_as_such() -> None:
    (mistake, *_) = mistakes_of(f"{STREAM}{VIEW}SELECT session_window() AS s, count(*) AS n FROM requests GROUP BY s")
    wording.check(mistake.message, "session_window")


def test_the_latest_row_is_chosen_without_naming_a_field() -> None:
    (mistake, *_) = mistakes_of(
        f"{STREAM}{VIEW}SELECT DISTINCT ON (host) host, ms FROM requests ORDER BY host, at DESC"
    )
    wording.check(mistake.fix or "", "last(x)")
    parse(f"{STREAM}{VIEW}SELECT host, last(ms) AS ms FROM requests GROUP BY host")


@pytest.mark.parametrize(
    "written", ["KAFKA_TOPIC='enriched', VALUE_FORMAT='JSON'", "'connector' = 'kafka', 'topic' = 'enriched'"]
)
def test_the_topic_of_a_query_is_that_of_a_sink(written: str) -> None:
    (mistake,) = mistakes_of(f"{STREAM}CREATE STREAM e WITH ({written}) AS SELECT * FROM requests EMIT CHANGES")
    assert "CREATE SINK … FROM it WITH (connector = 'kafka', topic = 'enriched') fills a topic" in str(mistake)


def test_what_changes_of_other_systems_need_is_said() -> None:
    (mistake,) = mistakes_of(
        f"{STREAM}APPLY CHANGES INTO t FROM requests KEYS (host) APPLY AS DELETE WHEN ok SEQUENCE BY at STORED AS SCD TYPE 2"
    )
    for part in ("latest by the event time", "APPLY AS DELETE WHEN) are not available", "--timestamp-as-of"):
        assert part in mistake.message
    source = (
        "CREATE SOURCE s FROM KAFKA CONNECTION c (TOPIC 't') FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION r"
    )
    (mistake,) = mistakes_of(source)
    wording.check(mistake.message, "AVRO")


@pytest.mark.parametrize(
    ("format_", "column", "envelope", "name"), [("JSON", "data", "NONE", "s"), ("TEXT", "text", "UPSERT", "s_changes")]
)
def test_the_column_of_a_source_has_the_complete_message(format_: str, column: str, envelope: str, name: str) -> None:
    source = (
        "CREATE SOURCE s FROM KAFKA CONNECTION c (TOPIC 't') FORMAT {} INCLUDE KEY AS k, TIMESTAMP AS ts ENVELOPE {}"
    )
    (mistake,) = mistakes_of(source.format(format_, envelope))
    stream = parse(mistake.write or "").streams[name]
    assert stream.format == "text"
    assert {field.name: field.record for field in stream.fields if field.record} == {"k": "key", "ts": "timestamp"}
    assert [field.computed and field.computed.sql for field in stream.fields if field.name == column] == ["value"]


@pytest.mark.parametrize("statement", [
    "CREATE TABLE t (a INT, PRIMARY KEY (a)) WITH (connector = 'kafka', topic = 't') FORMAT DEBEZIUM ENCODE JSON",
    "CREATE TABLE t (a INT, PRIMARY KEY (a)) WITH (connector = 'kafka', topic = 't', format = 'debezium-json')",
    "CREATE SOURCE s FROM KAFKA CONNECTION c (TOPIC 't') FORMAT JSON ENVELOPE DEBEZIUM",
])  # fmt: skip
def test_envelopes_of_debezium_are_unwrapped_before(statement: str) -> None:
    (mistake,) = mistakes_of(statement)
    wording.check(mistake)


def _proposals() -> set[str]:
    """The statements in the messages of definitions, as they are in the code: {} stands for a value."""
    found = set()
    for path in (*PACKAGE.glob("define/**/*.py"), *PACKAGE.glob("language/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
                found |= set(re.findall(r"CREATE (?!VIEW IF)[^;…]*?\bAS (?:SELECT [^;…]*|\{\})$", text))
    return found


def test_every_statement_of_a_message_is_tried() -> None:
    """A proposal that no case here meets is one that nobody has seen accepted."""
    met = [
        f"{mistake} {mistake.write}"
        for statement in (*SLIPS, *WHOLE, *LATER, *OTHER_SYSTEMS)
        for mistake in mistakes_of(STREAM + ("" if statement in (*SLIPS, *WHOLE) else OTHERS) + statement)
    ]
    met += [
        str(mistake)
        for mistake in mistakes_of(f"{STREAM}{VIEW}SELECT count(*) AS n FROM requests GROUP BY window(sent, '1 hour')")
    ]
    proposals = _proposals()
    assert len(proposals) > 5
    for proposal in proposals:
        pattern = ".*".join(map(re.escape, proposal.split("{}")))
        assert any(re.search(pattern, text) for text in met), f"no case has a message with {proposal}"


@pytest.mark.parametrize(("statement", "part"), SENTENCES)
def test_what_a_sentence_suggests_is_accepted(statement: str, part: str) -> None:
    (mistake, *_) = mistakes_of(STREAM + statement)
    suggested = re.split(r"(?:write|cast it:) ", str(mistake))[1].split(" or ")[0].split("; ")[0]
    before, _, after = statement.rpartition(part) if part == "'200'" else statement.partition(part)
    assert mistakes_of(STREAM + before + suggested + after) == []


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_the_aggregate_of_another_system_has_one_here(name: str) -> None:
    """Each suggestion is an aggregate that is accepted."""
    arguments = ARGUMENTS.get(name) or ("ms, bytes" if name in PAIRS else "ms")
    statement = f"{VIEW}SELECT host, {name}({arguments}) AS x {BY_HOUR}"
    if name in REGISTRY:
        pytest.skip("it is one of ours")
    (mistake, *_) = mistakes_of(STREAM + statement)
    if mistake.write is None:
        assert name in ("topkweighted", "approx_most_frequent")
        return
    follow(STREAM + statement)


ARGUMENTS_OF_FUNCTIONS = {
    "->": None, "overlay": None, "tostartofinterval": "at, INTERVAL 5 MINUTES", "timestamp_trunc": "at, HOUR", "datetime_trunc": "at, DAY",
    "datetrunc": "at, MONTH", "time_floor": "at, 'PT1H'", "to_char": "at, 'YYYY-MM-DD'", "timestampdiff": "HOUR, sent, at",
    "stringtotimestamp": "path, 'yyyy-MM-dd'", "parse_timestamp": "path, 'yyyy-MM-dd'", "strptime": "path, 'yyyy-MM-dd'", "locate": "'a', path", "charindex": "'a', path",
    "position": "'a', path", "time_bucket": "at, '1 hour'", "date_bin": "at, '1 hour'", "has": "tags, 'x'", "list_contains": "tags, 'x'", "array_has": "tags, 'x'", "array_length": "tags, 1", "sha256": "path", "sha512": "path", "to_timestamp_ltz": "bytes, 3", "json_unquote": "payload", "trim_json": "payload", "safe_divide": "ms, bytes", "div0": "ms, bytes", "multiif": "ok, 1, 2", "dateadd": "hour, -1, at", "timestampadd": "DAY, 2, at", "regexp_substr": "path, 'a+'", "match": "path, 'a+'", "regexp_matches": "path, 'a+'",
}  # fmt: skip
TEXTS = ("to_date", "to_timestamp", "CAST", "= ''", "<> ''", "get_json_object")


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_the_function_of_another_system_has_one_here(name: str) -> None:
    """Each suggestion is an expression that is accepted."""
    template = FUNCTIONS[name]
    arguments = ARGUMENTS_OF_FUNCTIONS.get(name, "")
    if arguments is None or name in OUR_FUNCTIONS:
        pytest.skip("it takes no arguments in parentheses")
    if not arguments:
        is_json = "json" in name or "visitparam" in name
        is_text = isinstance(template, str) and any(text in template for text in TEXTS)
        arguments = (
            "payload, '$.a'"
            if isinstance(template, str) and "json" in template
            else "payload, 'a'"
            if is_json
            else "path"
            if is_text
            else "at"
        )
        arguments = "bytes" if isinstance(template, str) and template.startswith("timestamp_") else arguments
    statement = f"{VIEW}SELECT host, count(*) AS n FROM requests WHERE {name}({arguments}) IS NOT NULL GROUP BY host"
    if name in ("time_floor", "time_bucket", "date_bin") or "time_bucket" in str(template):  # a window
        statement = f"{VIEW}SELECT {name}({arguments}) AS b, count(*) AS n FROM requests GROUP BY 1"
    (mistake, *_) = mistakes_of(STREAM + statement)
    assert mistake.write is not None, mistake
    follow(STREAM + statement)


@pytest.mark.parametrize(("condition", "start"), [
    ("at > now() - INTERVAL '1 hour'", "-1h"), ("at >= CURRENT_TIMESTAMP - INTERVAL 15 MINUTES", "-15m"), ("at > current_date - 7", "-168h"),
    ("at BETWEEN now() - INTERVAL '90' SECOND AND now()", "-90s"), ("mz_now() <= at + INTERVAL '2 days'", "-48h"), ("date(at) = current_date()", "-24h"),
])  # fmt: skip
@pytest.mark.parametrize("window", ["", ", window(at, '1 second')"])
def test_a_condition_on_the_clock_becomes_a_question(condition: str, start: str, window: str) -> None:
    (mistake,) = mistakes_of(
        f"{STREAM}{VIEW}SELECT host, count(*) AS n FROM requests WHERE {condition} GROUP BY host{window}"
    )
    command = shlex.split(str(mistake).rpartition(": ")[2])
    assert command[:3] == ["headrace", "ask", "v"]
    options = dict(option.removeprefix("--").split("=") for option in command[3:])
    assert options == {"start": start} if window else options == {"start": start, "window": "all"}
    question = Question.from_text("v", list(options.items()))
    (written,) = parse(STREAM + (mistake.write or "")).views.values()
    assert question.start is not None
    assert written.window is not None
    assert question.start.ms % written.window.pane_ms == 0
