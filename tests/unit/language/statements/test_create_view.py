"""CREATE STREAM and CREATE MATERIALIZED VIEW: what they make, and what they refuse."""

# ruff: noqa: E501 - one case per line

from __future__ import annotations

import pytest

import headrace as hr
from headrace.aggregate.approx_distinct import ApproxCountDistinct
from headrace.aggregate.numeric import Avg, Count, Sum
from headrace.aggregate.ordered import Max, Min
from headrace.define.catalog import parse
from headrace.define.fingerprint import from_json, to_json
from headrace.define.model import Column, Field, Key, Stream, View, Window
from headrace.errors import DefinitionError, DefinitionErrors
from headrace.language.terms import Expression
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, decimal
from tests import wording

VISITS = """
CREATE STREAM visits (
  visitor STRING NOT NULL, page STRING, status INT, bytes BIGINT, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
);
"""
STREAM = parse(VISITS).streams["visits"]


def view(body, head="CREATE MATERIALIZED VIEW v AS "):
    return parse(VISITS + head + body).views["v"]


def test_the_example_of_the_design():
    catalog = parse(
        VISITS
        + """
CREATE MATERIALIZED VIEW traffic SCHEDULE EVERY 1 HOUR AS
SELECT page,
       count(*)                                AS hits,
       count(*) FILTER (WHERE status >= 500)   AS errors,
       sum(bytes)                              AS bytes,
       approx_count_distinct(visitor)          AS visitors
FROM visits
WHERE status <> 304
GROUP BY page, window(at, '1 minute');
"""
    )
    assert catalog.streams["visits"] == Stream(
        "visits",
        (
            Field("visitor", STRING, nullable=False),
            Field("page", STRING),
            Field("status", INT),
            Field("bytes", BIGINT),
            Field("at", TIMESTAMP, nullable=False),
        ),
        "at",
        60_000,
    )
    assert catalog.views["traffic"] == View(
        "traffic",
        ("visits",),
        (Key("page", Expression.field("page", STRING)),),
        (
            Column("hits", Count()),
            Column("errors", Count((), Expression.stored("status >= 500", BOOLEAN))),
            Column("bytes", Sum((Expression.field("bytes", BIGINT),))),
            Column("visitors", ApproxCountDistinct((Expression.field("visitor", STRING),))),
        ),
        Window(60_000, 60_000),
        Expression.stored("status <> 304", BOOLEAN),
        3_600_000,
        (("visitor", STRING), ("page", STRING), ("status", INT), ("bytes", BIGINT)),
    )
    assert str(catalog.locations["traffic"]) == "<sql>:7:1"


def test_types_and_their_other_names():
    fields = "a TEXT, b VARCHAR(20), c INTEGER, d LONG, e NUMERIC(9,2), f BOOL, g DOUBLE PRECISION, h DATE, i DECIMAL"
    stream = parse(f"create or refresh streaming table s ({fields} COMMENT 'x')").streams["s"]
    expected = [STRING, STRING, INT, BIGINT, decimal(9, 2), BOOLEAN, DOUBLE, DATE, decimal(10, 0)]
    assert [f.type for f in stream.fields] == expected


def test_computed_fields():
    stream = parse(
        "CREATE STREAM s (ts BIGINT, page STRING, at TIMESTAMP NOT NULL AS timestamp_millis(ts), "
        "host GENERATED, WATERMARK FOR at)".replace(
            "host GENERATED", "host AS lower(page), p STRING GENERATED ALWAYS AS (page)"
        )
    ).streams["s"]
    assert stream.fields[2] == Field("at", TIMESTAMP, False, Expression.stored("timestamp_millis(ts)", TIMESTAMP))
    assert stream.fields[3] == Field("host", STRING, True, Expression.stored("lower(page)", STRING))
    assert (stream.event_time, stream.patience_ms) == ("at", 0)


@pytest.mark.parametrize("name", ["idle_timeout", "'idle_timeout'", "'scan.watermark.idle-timeout'"])
def test_an_idle_timeout(name):
    fields = "at TIMESTAMP, WATERMARK FOR at"
    stream = parse(f"CREATE STREAM s ({fields}) WITH ({name} = '5 min')").streams["s"]
    assert stream.idle_timeout_ms == 300_000
    assert stream == hr.Stream("s", "at TIMESTAMP", event_time="at", idle_timeout="5 minutes")
    assert from_json(to_json(stream)) == stream
    assert "idle_timeout_ms" not in to_json(parse(f"CREATE STREAM s ({fields})").streams["s"])


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ("(idle_timeout = 5)", ("5",)),
        ("(idle_timeout = 'soon')", ("soon",)),
        ("(idle_timeout = '10 ms')", ("10",)),
    ],
)
def test_an_idle_timeout_that_cannot_be(options, values):
    with pytest.raises(DefinitionError) as caught:
        parse(f"CREATE STREAM s (a INT) WITH {options}")
    wording.check(caught.value, *values)


@pytest.mark.parametrize(
    "watermark", ["WATERMARK FOR AT", "WATERMARK FOR at AS at", "WATERMARK FOR at AS at - INTERVAL '0' SECOND"]
)
def test_patience_zero(watermark):
    assert parse(f"CREATE STREAM s (at TIMESTAMP, {watermark})").streams["s"].patience_ms == 0


def test_without_watermark_arrival_is_the_event_time():
    catalog = parse(
        "CREATE STREAM s (page STRING); "
        "CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM s GROUP BY window(_arrived, '1 hour', '5 minutes')"
    )
    assert catalog.streams["s"].event_time is None
    assert catalog.views["v"].window == Window(3_600_000, 300_000)


@pytest.mark.parametrize(
    "body",
    [
        "SELECT page, count(*) AS hits FROM visits GROUP BY page, window(at, '10 minutes', '5 minutes')",
        "SELECT window, page, count(*) AS hits FROM visits GROUP BY window(at, '10 minutes', '5 minutes'), page",
        "select WINDOW.start, window.end, page, Count ( * ) hits from VISITS v group by 3, window(v.at,'600 s','5m')",
        "SELECT page, count(*) AS hits FROM visits GROUP BY page, HOP(at, INTERVAL 5 MINUTES, INTERVAL '10' MINUTE)",
        "SELECT hop_start(at, INTERVAL 5 MINUTE, INTERVAL 10 MINUTE), page, count() AS hits FROM visits "
        "GROUP BY page, HOP(at, INTERVAL 5 MINUTES, INTERVAL '10 minutes')",
        "SELECT window_start, window_end, page, count(*) AS hits FROM HOP(visits, at, INTERVAL '5 minutes', "
        "INTERVAL '10 minutes') GROUP BY window_start, window_end, page",
        "SELECT page, count(*) AS hits FROM TABLE(HOP(TABLE visits, DESCRIPTOR(at), INTERVAL '5' MINUTES, "
        "INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, visits.page",
    ],
)
def test_many_ways_to_write_one_view(body):
    assert view(body) == View(
        "v",
        ("visits",),
        (Key("page", Expression.field("page", STRING)),),
        (Column("hits", Count()),),
        Window(600_000, 300_000),
        reads=(("page", STRING),),
    )


@pytest.mark.parametrize(
    "window", ["window(at, '1 minute')", "TUMBLE(at, INTERVAL 1 MINUTE)", "tumble(at, '60 seconds')"]
)
def test_tumbling_windows(window):
    assert view(f"SELECT count(*) FROM visits GROUP BY {window}").window == Window(60_000, 60_000)


@pytest.mark.parametrize(
    "body",
    [
        "SELECT page, count(*) AS n, window_start AS s, window_end AS e FROM visits GROUP BY page, session_window(at, '30 minutes')",
        "SELECT page, count(*) AS n, session_window.start AS s, session_window.end AS e FROM visits GROUP BY 1, session_window(at, '30m')",
        "SELECT page, count(*) AS n, SESSION_START(at, INTERVAL '30' MINUTE) AS s, SESSION_END(at, INTERVAL '30' MINUTE) AS e "
        "FROM visits GROUP BY page, SESSION(at, INTERVAL '30' MINUTE)",
        "SELECT page, count(*) AS n, session_window(at, '30 minutes').start AS s, window_end AS e FROM visits GROUP BY ALL",
        "SELECT page, window_start AS s, window_end AS e, count(*) AS n FROM TABLE(SESSION(TABLE visits PARTITION BY page, "
        "DESCRIPTOR(at), INTERVAL '30' MINUTES)) GROUP BY page, window_start, window_end",
        "SELECT page, window_start AS s, window_end AS e, count(*) AS n FROM TABLE(SESSION(DATA => TABLE visits PARTITION BY "
        "(page), TIMECOL => DESCRIPTOR(at), GAP => INTERVAL '30' MINUTES)) GROUP BY page, window_start, window_end",
        "SELECT page, count(*) AS n, window_start AS s, window_end AS e FROM visits "
        "GROUP BY page, session_window(at, CASE WHEN bytes > 1 THEN '30 minutes' ELSE INTERVAL 1800 SECONDS END)",
    ],
)  # fmt: skip
def test_sessions(body):
    definition = view(body)
    assert definition.window == Window(1_800_000, 1_800_000, "s", "e", session=True)
    assert ([key.name for key in definition.keys], [column.name for column in definition.columns]) == (["page"], ["n"])


def test_the_gap_of_a_session_may_depend_on_the_event():
    gap = "CASE WHEN bytes > 9 THEN '2 hours' WHEN page IS NULL THEN INTERVAL 1 DAY ELSE '30 minutes' END"
    definition = view(f"SELECT count(*) AS n FROM visits GROUP BY session_window(at, {gap})")
    expression = "CAST(CASE WHEN bytes > 9 THEN 7200000 WHEN page IS NULL THEN 86400000 ELSE 1800000 END AS BIGINT)"
    assert definition.window.size_ms == 1_800_000
    assert definition.window.gap.sql == expression
    assert dict(definition.reads) == {"page": STRING, "bytes": BIGINT}
    assert from_json(to_json(definition)) == definition


@pytest.mark.parametrize(
    "body",
    [
        "SELECT window_start AS minute, window_end AS until, count(*) AS n FROM visits GROUP BY window(at, '1 minute')",
        "SELECT window.start minute, count(*) AS n, window.END AS until FROM visits GROUP BY 1, window(at, '1 minute')",
        "SELECT TUMBLE_START(at, INTERVAL 1 MINUTE) AS minute, TUMBLE_END(at, INTERVAL 1 MINUTE) AS until, "
        "count(*) AS n FROM visits GROUP BY TUMBLE(at, INTERVAL 1 MINUTE)",
        "SELECT window_start AS minute, window_end AS until, count(*) AS n FROM TUMBLE(visits, at, INTERVAL 1 MINUTE) "
        "GROUP BY minute, until",
        "SELECT window(at, '1 minute').start AS minute, window(at, '1m').end AS until, count(*) AS n FROM visits GROUP BY 1, until",
        "SELECT window(at, '1 minute').start AS minute, window(at, '1m').end AS until, count(*) AS n FROM visits GROUP BY ALL",
        "SELECT TUMBLE_START(at, INTERVAL 1 MINUTE) AS minute, window_end AS until, count(*) AS n FROM visits GROUP BY minute",
    ],
)  # fmt: skip
def test_bounds_of_the_window_keep_their_alias(body):
    definition = view(body)
    assert definition.window == Window(60_000, 60_000, "minute", "until")
    assert (definition.keys, [column.name for column in definition.columns]) == ((), ["n"])


def test_an_alias_equal_to_a_field_names_the_expression_that_is_grouped_by():
    for group in ("lower(page)", "1"):
        definition = view(f"SELECT lower(page) AS page, count(*) FROM visits GROUP BY {group}")
        assert definition.keys == (Key("page", Expression.stored("lower(page)", STRING)),)


@pytest.mark.parametrize("group", ["host", "lower(page)", "1", "LOWER(visits.Page)"])
def test_a_key_is_named_by_its_alias_expression_or_place(group):
    definition = view(f"SELECT lower(page) AS host, count(*) FROM visits GROUP BY {group}")
    assert definition.keys == (Key("host", Expression.stored("lower(page)", STRING)),)
    assert definition.window is None


def test_keys_need_not_be_selected():
    assert view("SELECT count(*) FROM visits GROUP BY page, status").keys == (
        Key("page", Expression.field("page", STRING)),
        Key("status", Expression.field("status", INT)),
    )


def test_no_keys_and_no_window():
    assert view("SELECT count(*) FROM visits") == View("v", ("visits",), (), (Column("count", Count()),))


def test_columns_without_a_name():
    columns = view("SELECT count(*), count(page), sum(bytes), avg(status), min(at), max(at) FROM visits").columns
    assert view("SELECT count(1) FROM visits") == view("SELECT count(*) FROM visits")
    assert [c.name for c in columns] == ["count", "count_page", "sum_bytes", "avg_status", "min_at", "max_at"]
    assert [type(c.aggregate) for c in columns] == [Count, Count, Sum, Avg, Min, Max]


def test_views_read_streams_that_are_declared_later_or_before():
    body = "CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM VISITS;"
    assert parse(body + VISITS).views["v"].streams == ("visits",)
    assert parse(body, known=parse(VISITS)).views["v"].streams == ("visits",)
    assert parse(body, known=parse(VISITS)).streams == {}


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("SELECT avg(DISTINCT bytes) FROM visits", ('avg(DISTINCT …)', 'avg(bytes)')),
        ("SELECT collect_list(DISTINCT bytes) FROM visits", ('collect_set(bytes)',)),
        ("SELECT sum(DISTINCT bytes) FROM visits", ('sum(bytes)', 'DISTINCT')),
        ("SELECT median(bytes) FROM visits", ()),
        ("SELECT percentile(bytes, 0.5) AS p FROM visits", ()),
        ("SELECT approx_percentile(bytes, 95) AS p FROM visits", ('1', 'percentage', '0.95')),
        ("SELECT approx_percentile(bytes, bytes) AS p FROM visits", ('approx_percentile', 'percentage')),
        ("SELECT approx_percentile(bytes, array()) AS p FROM visits", ('approx_percentile', 'percentage')),
        ("SELECT approx_percentile(bytes, ARRAY[0.5, page]) AS p FROM visits", ('percentage',)),
        ("SELECT approx_percentile(bytes, 0.5, 1000000) AS p FROM visits", ('10000', 'accuracy')),
        ("SELECT approx_percentile(bytes) AS p FROM visits", ('approx_percentile(expression, percentage)',)),
        ("SELECT approx_top_k(bytes, 0) AS p FROM visits", ('1000', 'k')),
        ("SELECT histogram(bytes, 10) AS p FROM visits", ('edges', '10')),
        ("SELECT histogram(bytes, array(10, 5)) AS p FROM visits", ('array(5, 10)',)),
        ("SELECT skewness(bytes) AS p FROM visits", ()),
        ("SELECT count_if(status) AS p FROM visits", ('IS NOT NULL',)),
        ("SELECT std(bytes) AS p FROM visits", ('stddev(bytes)',)),
        ("SELECT mean(bytes) FROM visits", ('avg(bytes)',)),
        ("SELECT sum(bytes) / count(*) FROM visits", ('AS',)),
        ("SELECT sum(bytes) / status AS s FROM visits", ('GROUP BY',)),
        ("SELECT sum(bytes) + page AS s FROM visits GROUP BY page", ()),
        ("SELECT sum(bytes) / nosuch AS s FROM visits", ('v', 'nosuch')),
        ("SELECT hash(count(*)) AS s FROM visits", ('count(*)',)),
        ("SELECT sum(count(*)) AS s FROM visits", ()),
        ("SELECT sum(page) FROM visits", ('STRING',)),
        ("SELECT sum() AS s FROM visits", ()),
        ("SELECT max(bytes, status) AS s FROM visits", ('2',)),
        ("SELECT max(*) AS s FROM visits", ('count(*)',)),
        ("SELECT sum(bytes + 1) FROM visits", ('sum(…)', 'AS')),
        ("SELECT count(*) FILTER (WHERE status) FROM visits", ('FILTER', 'INT')),
        ("SELECT count(*), count(*) FROM visits", ('count',)),
        ("SELECT page AS Hits, count(*) AS hits FROM visits GROUP BY page", ('Hits', 'hits')),
        ("SELECT count(*) AS settled FROM visits", ('settled',)),
        ("SELECT count(*) AS _hits FROM visits", ()),
        ("SELECT count(*) AS ` hits` FROM visits", ()),
        ("SELECT count(*) AS ` ` FROM visits", ()),
        ('SELECT count(*) AS "a\tb" FROM visits', ()),
        ("SELECT page AS settled, count(*) FROM visits GROUP BY page", ('settled',)),
        (f"SELECT count(*) AS {'x' * 64} FROM visits", ('64', '63')),
        ("SELECT page FROM visits GROUP BY page", ('v',)),
        ("SELECT page, count(*) FROM visits", ('GROUP BY',)),
        ("SELECT lower(page) AS page, count(*) FROM visits GROUP BY page", ('GROUP BY', 'lower(page)', 'AS')),
        ("SELECT window AS w, count(*) FROM visits GROUP BY window(at, '1m')", ('window_start', 'AS', 'window_end')),
        ("SELECT window_start AS a, window.start AS b, count(*) FROM visits GROUP BY window(at, '1m')", ('a', 'b')),
        ("SELECT window_start AS n, count(*) AS n FROM visits GROUP BY window(at, '1m')", ('n',)),
        ("SELECT window_start AS window_end, count(*) FROM visits GROUP BY window(at, '1m')", ('window_end',)),
        ("SELECT window.middle, count(*) FROM visits GROUP BY window(at, '1m')", ('middle',)),
        ("SELECT count(*) FROM visits GROUP BY lower(page)", ('lower(page)', 'AS')),
        ("SELECT count(*) FROM visits GROUP BY 2", ('GROUP BY', '2', 'SELECT', '1')),
        ("SELECT count(*) FROM visits GROUP BY 1", ()),
        ("SELECT count(*) FROM visits GROUP BY pge", ('visits', 'pge', 'page')),
        ("SELECT page AS p, page AS q, count(*) FROM visits GROUP BY page", ('p', 'q')),
        ("SELECT *, count(*) AS n FROM visits", ('SELECT',)),
        ("SELECT * FROM visits", ('v', 'CREATE STREAM', 'AS SELECT', 'FROM')),
        ("SELECT DISTINCT page FROM visits", ('SELECT DISTINCT',)),
        ("SELECT count(*) FROM visits WHERE bytes", ('WHERE', 'BIGINT')),
        ("SELECT count(*) FROM visits WHERE visits2.bytes > 1", ('visits2.bytes',)),
        ("SELECT count(*) FROM visit", ('visits',)),
        ("SELECT count(*) FROM zzz", ('CREATE STREAM',)),
        ("SELECT count(*) FROM visits JOIN users ON a = b", ('users',)),
        ("SELECT count(*) FROM visits v, users", ()),
        ("SELECT count(*) FROM (SELECT 1)", ('FROM',)),
        ("WITH x AS (SELECT 1) SELECT count(*) FROM visits", ('FROM',)),
        ("SELECT count(*) FROM visits GROUP BY page HAVING count(*)", ('HAVING', 'BIGINT', 'count(*)')),
        ("SELECT count(*) FROM visits GROUP BY page HAVING status > 1", ('GROUP BY',)),
        ("SELECT count(*) AS n FROM visits GROUP BY page HAVING m > 1", ('v', 'm')),
        ("SELECT count(*) FROM visits ORDER BY 2", ('ORDER BY', '2', '1')),
        ("SELECT count(*) FROM visits ORDER BY window_start", ('v',)),
        ("SELECT count(*) FROM visits ORDER BY count NULLS", ('FIRST', 'LAST', 'NULLS')),
        ("SELECT count(*) FROM visits LIMIT 0", ('LIMIT', '10,000')),
        ("SELECT count(*) FROM visits LIMIT 5 OFFSET 5", ('OFFSET',)),
        ("SELECT count(*) FROM visits SORT BY 1", ('SORT BY', 'ORDER BY')),
        ("SELECT count(*) FROM visits UNION ALL SELECT 1", ('FROM', 'UNION ALL SELECT')),
        ("SELECT count(*) FROM visits EMIT CHANGES", ()),
        ("SELECT count(*) FROM visits GROUP BY ROLLUP(page)", ('GROUP BY', 'ROLLUP')),
        ("SELECT count(*) FROM visits GROUP BY page, GROUPING SETS ((page), ())", ('GROUP BY', 'GROUPING SETS')),
        ("SELECT count(*) FROM visits GROUP BY page WITH CUBE", ('GROUP BY', 'WITH CUBE')),
        ("SELECT count(*) FROM visits GROUP BY window(page, '1 minute')", ('visits', 'at', 'page')),
        ("SELECT count(*) FROM visits GROUP BY window(lower(page), '1 minute')", ()),
        ("SELECT count(*) FROM visits GROUP BY window(at, '500 ms')", ('500',)),
        ("SELECT count(*) FROM visits GROUP BY window(at, '1500 ms')", ()),
        ("SELECT count(*) FROM visits GROUP BY window(at, '0 s')", ('0',)),
        ("SELECT count(*) FROM visits GROUP BY window(at, '1 minute', '2 minutes')", ()),
        ("SELECT count(*) FROM visits GROUP BY window(at, '5 months')", ('5 months', '3', '4', '6', '12')),
        ("SELECT count(*) FROM visits GROUP BY window(at, '1 month', '1 day')", ()),
        ("SELECT count(*) FROM visits GROUP BY TUMBLE(at, INTERVAL 1 MONTH, INTERVAL 1 DAY)", ()),
        ("SELECT count(*) FROM visits GROUP BY date_trunc('day', at AT TIME ZONE 'Europe/Berln')", ('Europe/Berln',)),
        ("SELECT count(*) FROM visits GROUP BY date_trunc('day', at AT TIME ZONE 'europe/berlin')", ('Europe/Berlin',)),
        ("SELECT count(*) FROM visits GROUP BY date_trunc('hour', at AT TIME ZONE 'Asia/Kolkata')", ('1',)),
        ("SELECT count(*) FROM visits GROUP BY date_trunc('fortnight', at)", ('date_trunc', 'fortnight', 'second', 'minute')),
        ("SELECT count(*) FROM visits GROUP BY date_trunc('day', at AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'UTC'", ('AT TIME ZONE',)),
        ("SELECT count(*) FROM visits GROUP BY CUMULATE(at, INTERVAL 1 DAY, INTERVAL 1 HOUR)", ('1',)),
        ("SELECT count(*) FROM visits GROUP BY CUMULATE(at, INTERVAL 1 MONTH, INTERVAL 1 YEAR)", ('1',)),
        ("SELECT count(*) FROM TABLE(TUMBLE(DATA => TABLE visits, TIME => DESCRIPTOR(at), SIZE => INTERVAL 1 DAY)) GROUP BY window_start", ('TUMBLE', 'DATA', 'TIMECOL', 'SIZE', 'OFFSET')),
        ("SELECT count(*) FROM visits GROUP BY window(at)", ('1',)),
        ("SELECT count(*) FROM visits GROUP BY window(at, 60)", ()),
        ("SELECT count(*) FROM visits GROUP BY window(at, '1m'), window(at, '2m')", ()),
        ("SELECT count(*) FROM visits GROUP BY window_start", ('GROUP BY',)),
        ("SELECT window(at, '2m').start AS a, count(*) FROM visits GROUP BY window(at, '1m')", ('SELECT', 'GROUP BY')),
        ("SELECT TUMBLE_END(at, INTERVAL 2 MINUTES), count(*) FROM visits GROUP BY TUMBLE(at, INTERVAL 1 MINUTE)", ('SELECT', 'GROUP BY')),
        ("SELECT window(at, '2m').start AS a, window(at, '1m').end AS b, count(*) FROM visits GROUP BY ALL", ()),
        ("SELECT window_start, count(*) FROM visits", ('SELECT', 'GROUP BY')),
        ("SELECT count(*) FROM TUMBLE(visits, at, INTERVAL 1 MINUTE) GROUP BY page", ('GROUP BY',)),
        ("SELECT count(*) FROM visits GROUP BY session_window(at)", ('1',)),
        ("SELECT count(*) FROM visits GROUP BY session_window(page, '5 minutes')", ("'page'",)),
        ("SELECT count(*) FROM visits GROUP BY session_window(at, bytes)", ()),
        ("SELECT count(*) FROM visits GROUP BY session_window(at, CASE WHEN bytes > 1 THEN '5 minutes' END)", ()),
        ("SELECT count(*) FROM visits GROUP BY session_window(at, '0 seconds')", ()),
        ("SELECT count(*) FROM visits GROUP BY session_window(at, '1500 milliseconds')", ()),
        ("SELECT count(*) FROM visits GROUP BY session_window(at, '1 month')", ()),
        ("SELECT count(*) FROM visits GROUP BY session_window(at, '1m'), session_window(at, '2m')", ()),
        ("SELECT SESSION_END(at, INTERVAL 2 MINUTES), count(*) FROM visits GROUP BY SESSION(at, INTERVAL 1 MINUTE)", ('SELECT', 'GROUP BY')),
        ("SELECT page, count(*) FROM TABLE(SESSION(TABLE visits, DESCRIPTOR(at), INTERVAL 1 MINUTE)) GROUP BY page, window_start", ('SESSION', 'PARTITION BY page')),
        ("SELECT count(*) FROM TABLE(SESSION(TABLE visits PARTITION BY page, DESCRIPTOR(at), INTERVAL 1 MINUTE)) GROUP BY window_start", ('PARTITION BY page',)),
        ("SELECT session_window(at, '1m') AS s, count(*) FROM visits GROUP BY session_window(at, '1m')", ("'s'",)),
        ("SELECT count(*) FROM visits GROUP BY page || session_window(at, '1m')", ('session_window',)),
    ],
)  # fmt: skip
def test_what_views_refuse(body, values):
    with pytest.raises(DefinitionError) as e:
        view(body)
    wording.check(e.value, *values)
    assert e.value.where.line == 6


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("CREATE VIEW v AS SELECT 1", ('v', 'FROM')),
        ("CREATE TABLE t (a INT)", ('CREATE STREAM',)),
        ("CREATE INDEX i", ('STREAM', 'TABLE', 'MATERIALIZED VIEW', 'SINK', 'ALERT')),
        ("CREATE OR ELSE STREAM s (a INT)", ('REPLACE', 'REFRESH', 'CREATE OR')),
        ("DROP STREAM s", ()),
        ("INSERT INTO s VALUES (1)", ('headrace send',)),
        ("ALTER STREAM s ADD COLUMN a INT", ('headrace apply',)),
        ("SELECT 1", ('headrace ask',)),
        ("CREATE TABLE IF NOT EXISTS s (a INT)", ('CREATE STREAM',)),
        ("CREATE STREAM s (a INT, PRIMARY KEY (a) NOT ENFORCED)", ('PRIMARY KEY', 'NOT ENFORCED')),
        ("CREATE STREAM s (a INT) WITH ('connector' = 'kafka')", ()),
        ("CREATE STREAM s (a INT, at AS PROCTIME())", ()),
        ("CREATE STREAM s (a INT METADATA FROM 'x')", ('x',)),
        ("CREATE STREAM s AS SELECT * FROM t", ('s', 't', 'CREATE STREAM')),
        ("CREATE STREAM s", ('s', 'CREATE STREAM', 'STRING')),
        ("CREATE STREAM s ()", ()),
        ("CREATE STREAM s (a INT", (')', 's')),
        ("CREATE STREAM s (a INT) x", (';',)),
        ("CREATE STREAM s (a)", ('STRING',)),
        ("CREATE STREAM s (a INT, A STRING)", ('a', 'A')),
        ("CREATE STREAM s (_a INT)", ('_a',)),
        ("CREATE STREAM s (`_ b` INT)", ('_ b',)),
        ("CREATE STREAM s (a INT FROM b)", ('FROM',)),
        ("CREATE STREAM s (a INT FROM '$.b[*].c')", ()),
        ("CREATE STREAM s (a INT FROM '$x')", ('$x',)),
        ("CREATE STREAM s (a INT FROM '$.b.')", ('4',)),
        ("CREATE STREAM s (a INT FROM '')", ('FROM',)),
        ("CREATE STREAM s (a INT, b INT FROM 'x' AS a + 1)", ('b', 'FROM', 'AS')),
        ("CREATE STREAM s (value STRING FROM 'x') FORMAT TEXT", ('value',)),
        ("CREATE STREAM s (window INT)", ('window',)),
        ("CREATE STREAM `_a` (a INT)", ('_a',)),
        ("CREATE STREAM `` (a INT)", ()),
        ("CREATE STREAM `a ` (a INT)", ('a',)),
        ("CREATE STREAM `a\nb` (a INT)", ()),
        ("CREATE STREAM `..` (a INT)", ('',)),
        (f"CREATE STREAM `{'日' * 23}` (a INT)", ('207',)),
        ("CREATE STREAM s (a INT PRIMARY KEY)", ('s', 'PRIMARY KEY')),
        ("CREATE STREAM s (a INT DEFAULT 5)", ('DEFAULT', 'coalesce(a, 5)')),
        ("CREATE STREAM s (a INT COMMENT 5)", ('COMMENT',)),
        ("CREATE STREAM s (a JSON)", ('STRING',)),
        ("CREATE STREAM s (a MAP<INT, INT>)", ('MAP', 'STRING')),
        ("CREATE STREAM s (a INT, WATERMARK FOR a)", ('a', 'INT', 'event_time', 'TIMESTAMP AS')),
        ("CREATE STREAM s (a STRING, WATERMARK FOR a)", ('event_time', 'TIMESTAMP AS', 'to_timestamp(a)', 'WATERMARK FOR')),
        ("CREATE STREAM s (a INT, WATERMARK FOR b)", ('s', 'b')),
        ("CREATE STREAM s (a TIMESTAMP, WATERMARK FOR a AS a - 5)", ('WATERMARK',)),
        ("CREATE STREAM s (a TIMESTAMP, WATERMARK FOR a, WATERMARK FOR a)", ()),
        ("CREATE STREAM s (a BIGINT, b INT AS a)", ('b', 'BIGINT', 'CAST(… AS INT)')),
        ("CREATE STREAM s (a INT, b INT AS a, c INT AS b)", ()),
        ("CREATE STREAM s (a INT AS 1)", ('s',)),
        ("CREATE STREAM s (a STRING, b STRING AS initcap(a))", ()),
        ("CREATE STREAM s (a DOUBLE, b STRING AS CAST(a AS STRING))", ('DOUBLE',)),
        ("CREATE STREAM s (a DECIMAL(5,2), b AS a / 2)", ('DECIMAL',)),
        ("CREATE STREAM s (a STRING, b AS a RLIKE '(?=x)')", ('RLIKE',)),
        ("CREATE STREAM s (a STRING, b AS to_date(a, 'MMM n'))", ('MMM n',)),
        ("CREATE STREAM s (a STRING, b AS to_timestamp(a, 'MMM d HH:mm:ss'), WATERMARK FOR b)", ('MMM d HH:mm:ss', 'to_timestamp')),
        ("CREATE MATERIALIZED VIEW v SCHEDULE CRON 'x' AS SELECT 1", ('SCHEDULE EVERY', '1', 'HOUR')),
        ("CREATE MATERIALIZED VIEW v SCHEDULE EVERY 1 MS AS SELECT 1", ('1',)),
        ("CREATE MATERIALIZED VIEW v SELECT 1", ('AS', 'CREATE MATERIALIZED VIEW')),
        ("CREATE MATERIALIZED VIEW v AS SELECT count(*)", ('FROM',)),
        ("CREATE STREAM s (a INT); CREATE STREAM S (b INT)", ('S', '1:1')),
        ("CREATE STREAM s (a INT, @)", ('@',)),
    ],
)  # fmt: skip
def test_what_statements_refuse(text, values):
    with pytest.raises(DefinitionError) as e:
        parse(text)
    wording.check(e.value, *values)


def test_all_mistakes_at_once():
    text = """
CREATE STREAM ok (a INT);
CREATE STREAM bad (a BYTES);
CREATE MATERIALIZED VIEW v AS SELECT cnt(*) FROM ok;
CREATE MATERIALIZED VIEW w AS SELECT count(*) FROM bad;
CREATE MATERIALIZED VIEW x AS SELECT count(*) AS n, sum(b) FROM ok;
"""
    with pytest.raises(DefinitionErrors) as e:
        parse(text, file="visits.sql")
    places = [str(error.where) for error in e.value.errors]
    assert places == ["visits.sql:3:22", "visits.sql:4:38", "visits.sql:6:57"]
    assert len(e.value.as_dict()["errors"]) == 3
