"""Python definitions: equal to SQL's, with errors that point at the user's line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint
from headrace.errors import DefinitionError
from tests import wording

FIELDS = "visitor STRING NOT NULL, page STRING, status INT, bytes BIGINT, at TIMESTAMP NOT NULL"
VISITS = f"CREATE STREAM visits ({FIELDS}, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);"


@pytest.fixture
def visits():
    return hr.Stream("visits", FIELDS, event_time="at", patience="1 minute")


def test_streams_equal_those_of_sql(visits):
    assert visits == parse(VISITS).streams["visits"]
    assert fingerprint(visits) == fingerprint(parse(VISITS).streams["visits"])
    fields = "ts BIGINT, at TIMESTAMP AS timestamp_millis(ts)"
    plain = hr.Stream("s", fields, event_time="AT", patience=timedelta(seconds=5))
    sql = f"CREATE STREAM s ({fields}, WATERMARK FOR at AS at - INTERVAL 5 SECONDS)"
    assert plain == parse(sql).streams["s"]
    assert hr.Stream("s", "a INT") == parse("CREATE STREAM s (a INT)").streams["s"]


def test_definitions_say_what_they_are(visits):
    view = hr.View("traffic", visits.group_by("page", hr.window("1 minute")).agg(hits=hr.count()))
    wording.check(repr(visits), "STRING", "BIGINT", "TIMESTAMP")
    wording.check(repr(view), 1)
    wording.check(repr(hr.Table("cities", "id BIGINT, name STRING", key="id")), "BIGINT", "STRING")
    wording.check(repr(visits.where("bytes > 0").where("status = 200")), "AND", 200)
    wording.check(repr(visits.group_by("page").agg(hits=hr.count())))


def test_the_example_of_the_design(visits):
    traffic = hr.View(
        "traffic",
        visits.where("status <> 304")
        .group_by("page", hr.window("1 minute"))
        .agg(
            hits=hr.count(),
            errors=hr.count(where="status >= 500"),
            bytes=hr.sum("bytes"),
            visitors=hr.approx_count_distinct("visitor"),
        ),
        schedule="1 hour",
    )
    assert (
        traffic
        == parse(
            VISITS
            + """CREATE MATERIALIZED VIEW traffic SCHEDULE EVERY 1 HOUR AS
        SELECT page, count(*) AS hits, count(*) FILTER (WHERE status >= 500) AS errors, sum(bytes) AS bytes,
               approx_count_distinct(visitor) AS visitors
        FROM visits WHERE status <> 304 GROUP BY page, window(at, '1 minute')"""
        ).views["traffic"]
    )


def test_all_forms_equal_those_of_sql(visits):
    view = hr.View(
        "v",
        visits.where("status > 1 or status < 0")
        .where("page is not null")
        .group_by("PAGE", "upper(page) AS loud", hr.window("1 hour", "5 minutes"), host="lower(page)")
        .agg(
            a=hr.avg("bytes"),
            b=hr.min("at"),
            c=hr.max("bytes + 1", where="status = 200"),
            d=hr.count("page"),
            e=hr.count("*"),
            f=hr.count("1"),
        ),
        schedule=timedelta(minutes=5),
    )
    assert (
        view
        == parse(
            VISITS
            + """CREATE MATERIALIZED VIEW v SCHEDULE EVERY 5 MINUTES AS
        SELECT upper(page) AS loud, lower(page) AS host, avg(bytes) AS a, min(at) AS b,
               max(bytes+1) FILTER (WHERE status = 200) AS c, count(page) AS d, count(*) AS e, count(1) AS f
        FROM visits WHERE (status > 1 OR status < 0) AND page IS NOT NULL
        GROUP BY page, loud, host, window(at, '1 hour', '5 minutes')"""
        ).views["v"]
    )
    query = visits.group_by(hr.window("1 minute", start="minute", end="until")).agg(n=hr.count())
    select = "SELECT window_start AS minute, window_end AS until, count(*) AS n FROM visits"
    assert (
        hr.View("v", query)
        == parse(f"{VISITS}CREATE MATERIALIZED VIEW v AS {select} GROUP BY window(at, '1 minute')").views["v"]
    )
    assert (
        hr.View("v", visits.agg(n=hr.count()))
        == parse(VISITS + "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM visits").views["v"]
    )


def test_sessions(visits):
    gap = "CASE WHEN bytes > 9 THEN '2 hours' ELSE '30 minutes' END"
    for window, sql in (
        (hr.session("30 minutes"), "session_window(at, '30 minutes')"),
        (hr.session(timedelta(minutes=30)), "SESSION(at, INTERVAL 30 MINUTES)"),
        ("session_window(at, '30 minutes')", "session_window(at, '30 minutes')"),
        (f"session_window(at, {gap})", f"session_window(at, {gap})"),
    ):
        made = hr.View("v", visits.group_by("page", window).agg(n=hr.count()))
        select = f"SELECT page, count(*) AS n FROM visits GROUP BY page, {sql}"
        assert made == parse(f"{VISITS}CREATE MATERIALIZED VIEW v AS {select}").views["v"]


@given(
    where=st.sampled_from([None, "status = 1", "STATUS<>2 and page like '/%'"]),
    keys=st.lists(st.sampled_from(["page", "status", "visitor"]), unique=True),
    window=st.sampled_from([None, ("1 minute", None), ("1 hour", "5 minutes")]),
    columns=st.lists(
        st.sampled_from([("count", None), ("sum", "bytes"), ("min", "at"), ("avg", "status * 2")]), min_size=1
    ),
)
def test_python_and_sql_give_equal_definitions(where, keys, window, columns):
    visits = hr.Stream("visits", FIELDS, event_time="at", patience="1 minute")
    query = visits.group_by(*keys, *([hr.window(*window)] if window else []))
    query = query.where(where) if where else query
    python = hr.View(
        "v", query.agg(**{f"c{i}": getattr(hr, f)(*([x] if x else [])) for i, (f, x) in enumerate(columns)})
    )
    selected = ", ".join(f"{f}({x or '*'}) AS c{i}" for i, (f, x) in enumerate(columns))
    spans = ", ".join(f"'{span}'" for span in window or () if span)
    groups = ", ".join([*keys, *([f"window(at, {spans})"] if window else [])])
    sql = (
        f"CREATE MATERIALIZED VIEW v AS SELECT {selected} FROM visits"
        f"{f' WHERE {where}' if where else ''}{f' GROUP BY {groups}' if groups else ''}"
    )
    assert parse(VISITS + sql).views["v"] == python


@pytest.mark.parametrize(
    ("declare", "values"),
    [
        (lambda v: hr.Stream("..", "x INT"), ("",)),
        (lambda v: hr.Stream("s", "x BYTES"), ("x BYTES",)),
        (lambda v: hr.Stream("s", "x INT y"), ("",)),
        (lambda v: hr.Stream("s", "x TIMESTAMP, WATERMARK FOR x"), ("event_time", "1")),
        (lambda v: hr.Stream("s", 5), ()),
        (lambda v: hr.Stream("s", "x INT", event_time="x"), ("x", "INT")),
        (lambda v: hr.Stream("s", "x INT", event_time="y"), ("s", "y")),
        (lambda v: hr.Stream("s", "x INT", patience="5m"), ("s", "event_time")),
        (lambda v: hr.Stream("s", "x TIMESTAMP", event_time="x", patience="soon"), ("soon",)),
        (lambda v: hr.Stream("s", "x TIMESTAMP", event_time="x", patience=5), ("5",)),
        (lambda v: hr.window("1 minute", "2 minutes"), ()),
        (lambda v: hr.window("1500ms"), ()),
        (lambda v: hr.window("1m", start="settled"), ("settled",)),
        (
            lambda v: hr.View("v", v.group_by(hr.window("1m", end="n")).agg(n=hr.count())),
            ("n",),
        ),
        (lambda v: hr.View("_x", v.agg(n=hr.count())), ("_x",)),
        (lambda v: hr.View("v", v), ("v",)),
        (lambda v: hr.View("v", v.group_by("page")), ("v",)),
        (lambda v: hr.View("v", v.agg(n=hr.count()), schedule="1 ms"), ("1",)),
        (lambda v: hr.View("v", v.agg(n=hr.sum("page"))), ("STRING",)),
        (lambda v: hr.View("v", v.agg(n=hr.sum("byts"))), ("byts", "bytes")),
        (lambda v: hr.View("v", v.agg(n=hr.count(where="bytes"))), ("bytes",)),
        (lambda v: hr.View("v", v.agg(settled=hr.count())), ("settled",)),
        (
            lambda v: hr.View("v", v.group_by("page").agg(Page=hr.count())),
            ("page", "Page"),
        ),
        (lambda v: hr.View("v", v.agg(n=5)), ("n", "5")),
        (lambda v: hr.View("v", v.where(5).agg(n=hr.count())), ()),
        (lambda v: hr.View("v", v.where("status >").agg(n=hr.count())), ("status >",)),
        (lambda v: hr.View("v", v.group_by(5).agg(n=hr.count())), ("window(…)", "5")),
        (lambda v: hr.View("v", v.group_by(w=hr.window("1m")).agg(n=hr.count())), ("window(…)",)),
        (lambda v: hr.View("v", v.group_by("lower(page)").agg(n=hr.count())), ("group_by", "lower(page)")),
        (lambda v: hr.View("v", v.group_by("page x y").agg(n=hr.count())), ()),
        (lambda v: hr.View("v", v.group_by(settled="page").agg(n=hr.count())), ("settled",)),
        (
            lambda v: hr.View("v", v.group_by(hr.window("1m"), hr.window("2m")).agg(n=hr.count())),
            (),
        ),
    ],
)
def test_each_mistake_points_at_the_users_line(visits, declare, values):
    with pytest.raises(DefinitionError) as e:
        declare(visits)
    wording.check(e.value, *values)
    assert e.value.where.file == __file__
    line = Path(__file__).read_text().splitlines()[e.value.where.line - 1]
    assert "hr." in line
    assert line[e.value.where.column - 1 :].startswith(("hr.", "v."))
