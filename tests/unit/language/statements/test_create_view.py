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
        (Key("page", Expression.stored("page", STRING)),),
        (
            Column("hits", Count()),
            Column("errors", Count((), Expression.stored("status >= 500", BOOLEAN))),
            Column("bytes", Sum((Expression.stored("bytes", BIGINT),))),
            Column("visitors", ApproxCountDistinct((Expression.stored("visitor", STRING),))),
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
    ("options", "says"),
    [
        ("(idle_timeout = 5)", "the idle time-out is a text; found 5"),
        ("(idle_timeout = 'soon')", "'soon' is not a duration"),
        ("(idle_timeout = '10 ms')", "the idle time-out is too short; found 10 milliseconds; expected at least 1 s"),
    ],
)
def test_an_idle_timeout_that_cannot_be(options, says):
    with pytest.raises(DefinitionError) as caught:
        parse(f"CREATE STREAM s (a INT) WITH {options}")
    assert says in str(caught.value)


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
        (Key("page", Expression.stored("page", STRING)),),
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
        Key("page", Expression.stored("page", STRING)),
        Key("status", Expression.stored("status", INT)),
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
    ("body", "says"),
    [
        ("SELECT avg(DISTINCT bytes) FROM visits", "avg(DISTINCT …) would have to store every value; write avg(bytes) without DISTINCT"),
        ("SELECT collect_list(DISTINCT bytes) FROM visits", "write collect_set(bytes)"),
        ("SELECT sum(DISTINCT bytes) FROM visits", "write sum(bytes) without DISTINCT"),
        ("SELECT median(bytes) FROM visits", "the aggregate median cannot be merged from partials"),
        ("SELECT percentile(bytes, 0.5) AS p FROM visits", "cannot be merged from partials"),
        ("SELECT approx_percentile(bytes, 95) AS p FROM visits", "a number from 0 to 1 as 'percentage', found 95; for 95 % write 0.95"),
        ("SELECT approx_percentile(bytes, bytes) AS p FROM visits", "approx_percentile takes a constant as 'percentage'"),
        ("SELECT approx_percentile(bytes, array()) AS p FROM visits", "approx_percentile takes a constant as 'percentage'"),
        ("SELECT approx_percentile(bytes, ARRAY[0.5, page]) AS p FROM visits", "takes a constant as 'percentage'"),
        ("SELECT approx_percentile(bytes, 0.5, 1000000) AS p FROM visits", "a whole number from 1 to 10000 as 'accuracy'"),
        ("SELECT approx_percentile(bytes) AS p FROM visits", "write approx_percentile(expression, percentage)"),
        ("SELECT approx_top_k(bytes, 0) AS p FROM visits", "takes a whole number from 1 to 1000 as 'k', found 0"),
        ("SELECT histogram(bytes, 10) AS p FROM visits", "histogram takes a constant as 'edges'; found 10"),
        ("SELECT histogram(bytes, array(10, 5)) AS p FROM visits", "ascending order, each once; write array(5, 10)"),
        ("SELECT skewness(bytes) AS p FROM visits", "not available yet; there are"),
        ("SELECT count_if(status) AS p FROM visits", "write a condition, as in status IS NOT NULL"),
        ("SELECT std(bytes) AS p FROM visits", "stddev(bytes)"),
        ("SELECT mean(bytes) FROM visits", "the aggregate mean is called avg here; write avg(bytes)"),
        ("SELECT sum(bytes) / count(*) FROM visits", "this expression has no name; add one: AS total"),
        ("SELECT sum(bytes) / status AS s FROM visits", "status is neither an aggregate nor in GROUP BY"),
        ("SELECT sum(bytes) + page AS s FROM visits GROUP BY page", "+ takes numbers"),
        ("SELECT sum(bytes) / nosuch AS s FROM visits", "view 'v' has no field 'nosuch'"),
        ("SELECT hash(count(*)) AS s FROM visits", "hash(count(*)) is not available over aggregates; use it inside an aggregate"),
        ("SELECT sum(count(*)) AS s FROM visits", "nested aggregates"),
        ("SELECT sum(page) FROM visits", "sum takes a number, found STRING (page)"),
        ("SELECT sum() AS s FROM visits", "sum takes a number, found nothing"),
        ("SELECT max(bytes, status) AS s FROM visits", "max takes one argument; found 2"),
        ("SELECT max(*) AS s FROM visits", "* is allowed only in count(*)"),
        ("SELECT sum(bytes + 1) FROM visits", "this sum(…) has no name; write sum(…) AS total"),
        ("SELECT count(*) FILTER (WHERE status) FROM visits", "FILTER takes a condition; found INT (status)"),
        ("SELECT count(*), count(*) FROM visits", "the column 'count' is declared twice"),
        ("SELECT page AS Hits, count(*) AS hits FROM visits GROUP BY page", "the column 'Hits' and 'hits' is declared twice"),
        ("SELECT count(*) AS settled FROM visits", "'settled' cannot name a column: every answer has a column of that name"),
        ("SELECT count(*) AS _hits FROM visits", "names that begin with _ are reserved"),
        ("SELECT count(*) AS ` hits` FROM visits", "a space at its beginning or end would be lost"),
        ("SELECT count(*) AS ` ` FROM visits", "it is empty"),
        ('SELECT count(*) AS "a\tb" FROM visits', "it has control characters"),
        ("SELECT page AS settled, count(*) FROM visits GROUP BY page", "'settled' cannot name a key"),
        (f"SELECT count(*) AS {'x' * 64} FROM visits", "has 64 characters; expected at most 63"),
        ("SELECT page FROM visits GROUP BY page", "view 'v' has no aggregate"),
        ("SELECT page, count(*) FROM visits", "page is neither an aggregate nor in GROUP BY; add it to GROUP BY"),
        ("SELECT lower(page) AS page, count(*) FROM visits GROUP BY page", "GROUP BY page is the field 'page', not lower(page) AS page: as in Spark, a field comes before an alias; to group by the expression write GROUP BY lower(page); to group by the field select page"),
        ("SELECT window AS w, count(*) FROM visits GROUP BY window(at, '1m')", "a window is two columns of the answer, so it cannot be selected as 'w'; name its bounds: window_start AS w_start, window_end AS w_end"),
        ("SELECT window_start AS a, window.start AS b, count(*) FROM visits GROUP BY window(at, '1m')", "the start of the window is selected as 'a' and as 'b'"),
        ("SELECT window_start AS n, count(*) AS n FROM visits GROUP BY window(at, '1m')", "the column 'n' is declared twice"),
        ("SELECT window_start AS window_end, count(*) FROM visits GROUP BY window(at, '1m')", "'window_end' cannot name a column"),
        ("SELECT window.middle, count(*) FROM visits GROUP BY window(at, '1m')", "a window has no 'middle'; expected window.start or window.end"),
        ("SELECT count(*) FROM visits GROUP BY lower(page)", "the key lower(page) has no name; select it: lower(page) AS …"),
        ("SELECT count(*) FROM visits GROUP BY 2", "GROUP BY 2: SELECT has 1 items"),
        ("SELECT count(*) FROM visits GROUP BY 1", "an aggregate cannot be a key"),
        ("SELECT count(*) FROM visits GROUP BY pge", "stream 'visits' has no field 'pge'; did you mean 'page'?"),
        ("SELECT page AS p, page AS q, count(*) FROM visits GROUP BY page", "page is selected as 'p' and as 'q'"),
        ("SELECT *, count(*) AS n FROM visits", "SELECT * is not supported in a view"),
        ("SELECT * FROM visits", "view 'v' has no aggregate, so that its rows are events one by one: a stream; write CREATE STREAM v AS SELECT * FROM visits"),
        ("SELECT DISTINCT page FROM visits", "SELECT DISTINCT is not supported in a view"),
        ("SELECT count(*) FROM visits WHERE bytes", "WHERE takes a condition; found BIGINT (bytes)"),
        ("SELECT count(*) FROM visits WHERE visits2.bytes > 1", "'visits2.bytes' is not defined here"),
        ("SELECT count(*) FROM visit", "view 'v' reads the stream 'visit', which does not exist; did you mean 'visits'?"),
        ("SELECT count(*) FROM zzz", "declare it with CREATE STREAM"),
        ("SELECT count(*) FROM visits JOIN users ON a = b", "table 'users' does not exist"),
        ("SELECT count(*) FROM visits v, users", "a comma joins each event to every row"),
        ("SELECT count(*) FROM (SELECT 1)", "expected FROM after the columns"),
        ("WITH x AS (SELECT 1) SELECT count(*) FROM visits", "expected FROM after the columns"),
        ("SELECT count(*) FROM visits GROUP BY page HAVING count(*)", "HAVING takes a condition; found BIGINT (count(*))"),
        ("SELECT count(*) FROM visits GROUP BY page HAVING status > 1", "status is neither an aggregate nor in GROUP BY"),
        ("SELECT count(*) AS n FROM visits GROUP BY page HAVING m > 1", "view 'v' has no field 'm'"),
        ("SELECT count(*) FROM visits ORDER BY 2", "ORDER BY 2 names no column; expected 1 to 1"),
        ("SELECT count(*) FROM visits ORDER BY window_start", "view 'v' has no window"),
        ("SELECT count(*) FROM visits ORDER BY count NULLS", "FIRST or LAST after NULLS"),
        ("SELECT count(*) FROM visits LIMIT 0", "LIMIT is out of range; found 0; expected 1 to 10,000"),
        ("SELECT count(*) FROM visits LIMIT 5 OFFSET 5", "a view does not skip rows; remove OFFSET"),
        ("SELECT count(*) FROM visits SORT BY 1", "SORT BY is not supported in a view; write ORDER BY"),
        ("SELECT count(*) FROM visits UNION ALL SELECT 1", "UNION is not supported in a view; unite streams in FROM: FROM (SELECT … UNION ALL SELECT …)"),
        ("SELECT count(*) FROM visits EMIT CHANGES", "a view is always up to date"),
        ("SELECT count(*) FROM visits GROUP BY ROLLUP(page)", "GROUP BY … ROLLUP is not supported: a question merges any of the keys; group by all keys; by=country asks for"),
        ("SELECT count(*) FROM visits GROUP BY page, GROUPING SETS ((page), ())", "GROUP BY … GROUPING SETS is not supported"),
        ("SELECT count(*) FROM visits GROUP BY page WITH CUBE", "GROUP BY … WITH CUBE is not supported"),
        ("SELECT count(*) FROM visits GROUP BY window(page, '1 minute')", "that of 'visits' is 'at'; found 'page'; write at"),
        ("SELECT count(*) FROM visits GROUP BY window(lower(page), '1 minute')", "found an expression"),
        ("SELECT count(*) FROM visits GROUP BY window(at, '500 ms')", "needs panes of 500 milliseconds; expected panes of whole seconds"),
        ("SELECT count(*) FROM visits GROUP BY window(at, '1500 ms')", "whole seconds"),
        ("SELECT count(*) FROM visits GROUP BY window(at, '0 s')", "the size of a window must be greater than 0"),
        ("SELECT count(*) FROM visits GROUP BY window(at, '1 minute', '2 minutes')", "leaves gaps"),
        ("SELECT count(*) FROM visits GROUP BY window(at, '5 months')", "a window of '5 months' begins in another month each year; expected 1, 2, 3, 4, 6 or 12 months"),
        ("SELECT count(*) FROM visits GROUP BY window(at, '1 month', '1 day')", "calendar windows follow one another: they have no slide"),
        ("SELECT count(*) FROM visits GROUP BY TUMBLE(at, INTERVAL 1 MONTH, INTERVAL 1 DAY)", "a calendar window has no offset"),
        ("SELECT count(*) FROM visits GROUP BY date_trunc('day', at AT TIME ZONE 'Europe/Berln')", "the time zone 'Europe/Berln' is not known"),
        ("SELECT count(*) FROM visits GROUP BY date_trunc('day', at AT TIME ZONE 'europe/berlin')", "write 'Europe/Berlin'"),
        ("SELECT count(*) FROM visits GROUP BY date_trunc('hour', at AT TIME ZONE 'Asia/Kolkata')", "windows of 1 hour do not begin at the same times in Asia/Kolkata and in UTC"),
        ("SELECT count(*) FROM visits GROUP BY date_trunc('fortnight', at)", "date_trunc takes a unit first; found 'fortnight'; expected 'second', 'minute'"),
        ("SELECT count(*) FROM visits GROUP BY date_trunc('day', at AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'UTC'", "leave out the outer AT TIME ZONE"),
        ("SELECT count(*) FROM visits GROUP BY CUMULATE(at, INTERVAL 1 DAY, INTERVAL 1 HOUR)", "a window of 1 hour does not grow in steps of 1 day"),
        ("SELECT count(*) FROM visits GROUP BY CUMULATE(at, INTERVAL 1 MONTH, INTERVAL 1 YEAR)", "the step of a cumulative window is a fixed duration; found 1 month"),
        ("SELECT count(*) FROM TABLE(TUMBLE(DATA => TABLE visits, TIME => DESCRIPTOR(at), SIZE => INTERVAL 1 DAY)) GROUP BY window_start", "TUMBLE has no further argument 'TIME'; expected DATA, TIMECOL, SIZE, OFFSET"),
        ("SELECT count(*) FROM visits GROUP BY window(at)", "window does not take 1 arguments"),
        ("SELECT count(*) FROM visits GROUP BY window(at, 60)", "window takes a constant duration here"),
        ("SELECT count(*) FROM visits GROUP BY window(at, '1m'), window(at, '2m')", "a view has one window"),
        ("SELECT count(*) FROM visits GROUP BY window_start", "GROUP BY names a window that is not defined"),
        ("SELECT window(at, '2m').start AS a, count(*) FROM visits GROUP BY window(at, '1m')", "SELECT names another window than GROUP BY"),
        ("SELECT TUMBLE_END(at, INTERVAL 2 MINUTES), count(*) FROM visits GROUP BY TUMBLE(at, INTERVAL 1 MINUTE)", "SELECT names another window than GROUP BY"),
        ("SELECT window(at, '2m').start AS a, window(at, '1m').end AS b, count(*) FROM visits GROUP BY ALL", "a view has one window"),
        ("SELECT window_start, count(*) FROM visits", "SELECT names a window, but GROUP BY has none"),
        ("SELECT count(*) FROM TUMBLE(visits, at, INTERVAL 1 MINUTE) GROUP BY page", "the window is not in GROUP BY"),
        ("SELECT count(*) FROM visits GROUP BY session_window(at, '5 minutes')", "sessions (session_window(…), SESSION) are not available yet; meanwhile write windows of a fixed size: window(at, '5 minutes')"),
    ],
)  # fmt: skip
def test_what_views_refuse(body, says):
    with pytest.raises(DefinitionError) as e:
        view(body)
    assert says in str(e.value)
    assert e.value.where.line == 6


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CREATE VIEW v AS SELECT 1", "view 'v' reads no view; expected FROM and the name of a view"),
        ("CREATE TABLE t (a INT)", "a table of events is a stream: write CREATE STREAM"),
        ("CREATE INDEX i", "expected STREAM, TABLE, MATERIALIZED VIEW, VIEW, SINK or ALERT"),
        ("CREATE OR ELSE STREAM s (a INT)", "expected REPLACE or REFRESH after CREATE OR"),
        ("DROP STREAM s", "to drop something, delete its definition"),
        ("INSERT INTO s VALUES (1)", "send events and rows with `headrace send`"),
        ("ALTER STREAM s ADD COLUMN a INT", "change its definition, and run `headrace apply`"),
        ("SELECT 1", "for queries use `headrace ask`"),
        ("CREATE TABLE IF NOT EXISTS s (a INT)", "write CREATE STREAM s"),
        ("CREATE STREAM s (a INT, PRIMARY KEY (a) NOT ENFORCED)", "remove PRIMARY KEY (a) NOT ENFORCED"),
        ("CREATE STREAM s (a INT) WITH ('connector' = 'kafka')", "a Kafka stream needs a topic"),
        ("CREATE STREAM s (a INT, at AS PROCTIME())", "the time of arrival, _arrived"),
        ("CREATE STREAM s (a INT METADATA FROM 'x')", "a record has no metadata 'x'"),
        ("CREATE STREAM s AS SELECT * FROM t", "stream 's' reads the stream 't', which does not exist; declare it with CREATE STREAM"),
        ("CREATE STREAM s", "stream 's' has no fields; found the end; expected CREATE STREAM s (page STRING, …)"),
        ("CREATE STREAM s ()", "expected the name of a field"),
        ("CREATE STREAM s (a INT", "expected ')' after the fields of stream 's'"),
        ("CREATE STREAM s (a INT) x", "expected ';' after the statement"),
        ("CREATE STREAM s (a)", "expected a type, such as STRING"),
        ("CREATE STREAM s (a INT, A STRING)", "the field 'a' and 'A' is declared twice"),
        ("CREATE STREAM s (_a INT)", "'_a' cannot name a field: names that begin with _ are reserved"),
        ("CREATE STREAM s (`_ b` INT)", "'_ b' cannot name a field: names that begin with _ are reserved"),
        ("CREATE STREAM s (a INT FROM b)", "expected a text after FROM"),
        ("CREATE STREAM s (a INT FROM '$.b[*].c')", "leads to several values; expected a key"),
        ("CREATE STREAM s (a INT FROM '$x')", "a key that itself begins with $ is written $['$x']"),
        ("CREATE STREAM s (a INT FROM '$.b.')", "cannot be read from character 4 on"),
        ("CREATE STREAM s (a INT FROM '')", "FROM '' names nothing"),
        ("CREATE STREAM s (a INT, b INT FROM 'x' AS a + 1)", "the field 'b' has both FROM and AS"),
        ("CREATE STREAM s (value STRING FROM 'x') FORMAT TEXT", "'value' is the whole line"),
        ("CREATE STREAM s (window INT)", "'window' cannot name a field"),
        ("CREATE STREAM `_a` (a INT)", "'_a' cannot name a stream: names that begin with _ are reserved"),
        ("CREATE STREAM `` (a INT)", "'' cannot name a stream: it is empty"),
        ("CREATE STREAM `a ` (a INT)", "'a ' cannot name a stream: a space at its beginning or end would be lost"),
        ("CREATE STREAM `a\nb` (a INT)", "cannot name a stream: it has control characters"),
        ("CREATE STREAM `..` (a INT)", "'..' cannot name a stream: URLs cannot have it"),
        (f"CREATE STREAM `{'日' * 23}` (a INT)", "is too long for the name of a folder; found 207 characters"),
        ("CREATE STREAM s (a INT PRIMARY KEY)", "stream 's' is a log of events, which keeps them all: it has no key; remove PRIMARY KEY"),
        ("CREATE STREAM s (a INT DEFAULT 5)", "DEFAULT is not supported; remove it, and write coalesce(a, 5) where"),
        ("CREATE STREAM s (a INT COMMENT 5)", "expected a text after COMMENT"),
        ("CREATE STREAM s (a JSON)", "the type JSON is not supported; the nearest is STRING"),
        ("CREATE STREAM s (a MAP<INT, INT>)", "the keys of a MAP are STRING"),
        ("CREATE STREAM s (a INT, WATERMARK FOR a)", "the event time 'a' is a INT; expected a TIMESTAMP; declare event_time TIMESTAMP AS"),
        ("CREATE STREAM s (a STRING, WATERMARK FOR a)", "event_time TIMESTAMP AS to_timestamp(a), and write WATERMARK FOR event_time"),
        ("CREATE STREAM s (a INT, WATERMARK FOR b)", "stream 's' has no field 'b' to be its event time"),
        ("CREATE STREAM s (a TIMESTAMP, WATERMARK FOR a AS a - 5)", "this WATERMARK is not supported"),
        ("CREATE STREAM s (a TIMESTAMP, WATERMARK FOR a, WATERMARK FOR a)", "has two WATERMARKs"),
        ("CREATE STREAM s (a BIGINT, b INT AS a)", "the computed field 'b' is declared INT; found BIGINT (a); write CAST(… AS INT)"),
        ("CREATE STREAM s (a INT, b INT AS a, c INT AS b)", "a computed field reads declared fields only"),
        ("CREATE STREAM s (a INT AS 1)", "stream 's' has no field of the events themselves"),
        ("CREATE STREAM s (a STRING, b STRING AS initcap(a))", "initcap is not available in a computed field; expected an operator"),
        ("CREATE STREAM s (a DOUBLE, b STRING AS CAST(a AS STRING))", "cannot write a DOUBLE as text"),
        ("CREATE STREAM s (a DECIMAL(5,2), b AS a / 2)", "a computed field cannot divide a DECIMAL"),
        ("CREATE STREAM s (a STRING, b AS a RLIKE '(?=x)')", "the pattern of RLIKE cannot be used: look-around is not available"),
        ("CREATE STREAM s (a STRING, b AS to_date(a, 'MMM n'))", "'MMM n' is not a format of times: the letters n cannot be read"),
        ("CREATE STREAM s (a STRING, b AS to_timestamp(a, 'MMM d HH:mm:ss'), WATERMARK FOR b)", "the format 'MMM d HH:mm:ss' has no year; write to_timestamp(concat('"),
        ("CREATE MATERIALIZED VIEW v SCHEDULE CRON 'x' AS SELECT 1", "expected SCHEDULE EVERY 1 HOUR"),
        ("CREATE MATERIALIZED VIEW v SCHEDULE EVERY 1 MS AS SELECT 1", "a schedule is at least 1 second"),
        ("CREATE MATERIALIZED VIEW v SELECT 1", "expected AS after CREATE MATERIALIZED VIEW v"),
        ("CREATE MATERIALIZED VIEW v AS SELECT count(*)", "expected FROM after the columns"),
        ("CREATE STREAM s (a INT); CREATE STREAM S (b INT)", "'S' is declared twice, also at <sql>:1:1"),
        ("CREATE STREAM s (a INT, @)", "the character '@' is not allowed here"),
    ],
)  # fmt: skip
def test_what_statements_refuse(text, says):
    with pytest.raises(DefinitionError) as e:
        parse(text)
    assert says in str(e.value)


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
