"""A plan says what changes, what follows from it, and what cannot be done."""

from __future__ import annotations

import json

import pytest

from headrace.define.catalog import Catalog
from headrace.define.plan import Change, compare
from headrace.define.sql import parse

STREAM = "CREATE STREAM visits (page STRING, bytes BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);"
VIEW = """CREATE MATERIALIZED VIEW hits AS
SELECT page, count(*) AS n, sum(bytes) AS bytes FROM visits WHERE bytes > 0 GROUP BY page, window(at, '1 minute');"""
RUNNING = parse(STREAM + VIEW)


def only(text):
    (change,) = compare(RUNNING, parse(text)).changes
    return change


def test_nothing_to_do():
    plan = compare(RUNNING, parse(VIEW + STREAM))
    assert plan.empty
    assert plan.only_creates


def test_create():
    plan = compare(Catalog(), RUNNING)
    assert [(c.kind, c.what, c.name) for c in plan.changes] == [
        ("create", "stream", "visits"),
        ("create", "view", "hits"),
    ]
    assert plan.only_creates
    assert plan.changes[1].details == (
        "stream: visits",
        "where: bytes > 0",
        "keys: page",
        "window: 1 minute",
        "column: count(*) AS n",
        "column: sum(bytes) AS bytes",
    )


def test_drop_views_first():
    plan = compare(RUNNING, Catalog())
    assert [(c.kind, c.what) for c in plan.changes] == [("drop", "view"), ("drop", "stream")]
    assert "its log stays on disk" in plan.changes[1].reason
    assert not plan.only_creates


@pytest.mark.parametrize(
    ("old", "new", "detail"),
    [
        ("bytes > 0", "bytes > 1", "where: bytes > 0 → bytes > 1"),
        ("WHERE bytes > 0", "", "where: bytes > 0 → all events"),
        ("GROUP BY page", "GROUP BY page, at", "keys: page → page, at"),
        ("SELECT page,", "SELECT page AS p,", "keys: page → page AS p"),
        ("GROUP BY page, window(at, '1 minute')", "GROUP BY page", "window: 1 minute → all time"),
        ("'1 minute'", "'1 hour', '5 minutes'", "window: 1 minute → 1 hour every 5 minutes"),
        ("sum(bytes)", "max(bytes)", "column changed: sum(bytes) AS bytes → max(bytes) AS bytes"),
        (", sum(bytes) AS bytes", "", "column removed: sum(bytes) AS bytes"),
        (
            "sum(bytes)",
            "min(at) FILTER (WHERE bytes = 1) AS first, sum(bytes)",
            "column added: min(at) FILTER (WHERE bytes = 1) AS first",
        ),
        ("count(*) AS n, sum(bytes) AS bytes", "sum(bytes) AS bytes, count(*) AS n", "the order of the columns"),
        ("VIEW hits AS", "VIEW hits SCHEDULE EVERY 1 HOUR AS", "schedule: none → every 1 hour"),
    ],
)
def test_a_changed_view_is_a_new_version(old, new, detail):
    change = only(STREAM + VIEW.replace(old, new))
    assert (change.kind, change.what, change.details) == ("change", "view", (detail,))
    assert change.reason == "a new version is computed from the whole log while the old one serves"


def test_a_view_of_another_stream():
    other = STREAM.replace("visits", "calls")
    plan = compare(RUNNING, parse(STREAM + other + VIEW.replace("visits", "calls")))
    assert plan.changes[1].details == ("stream: visits → calls",)


@pytest.mark.parametrize(
    ("old", "new", "detail"),
    [
        ("page STRING", "page STRING, code INT NOT NULL", "field added: code INT NOT NULL"),
        ("page STRING", "page STRING, low AS lower(page)", "field added: low STRING AS lower(page)"),
        ("bytes BIGINT", "bytes INT", "field changed: bytes BIGINT → bytes INT"),
        ("page STRING, bytes BIGINT", "bytes BIGINT, page STRING", "the order of the fields"),
        (", WATERMARK FOR at AS at - INTERVAL 1 MINUTE", "", "event time: at → _arrived"),
    ],
)
def test_a_changed_stream_is_refused_with_the_way_out(old, new, detail):
    plan = compare(parse(STREAM), parse(STREAM.replace(old, new)))
    assert plan.refused[0].details[0] == detail
    assert "declare the new form as a stream of another name" in plan.refused[0].reason


def test_a_removed_field_is_refused():
    (change,) = compare(parse(STREAM), parse(STREAM.replace("page STRING, ", ""))).changes
    assert (change.kind, change.details) == ("refuse", ("field removed: page STRING",))


def test_patience_is_free():
    assert only(STREAM.replace("1 MINUTE", "5 MINUTES") + VIEW) == Change(
        "change",
        "stream",
        "visits",
        "free: views use it from their next version on",
        ("patience: 1 minute → 5 minutes",),
    )


def test_a_plan_is_json():
    shown = json.loads(json.dumps(compare(RUNNING, Catalog()).as_dict()))
    assert shown["changes"][0] == {
        "kind": "drop",
        "what": "view",
        "name": "hits",
        "reason": "its numbers are deleted; the log keeps every event",
        "details": [],
    }
    assert (shown["empty"], shown["only_creates"]) == (False, False)


def test_a_yes_to_one_plan_is_not_a_yes_to_another():
    wanted = parse(STREAM + VIEW.replace("bytes > 0", "bytes > 1"))
    plan = compare(RUNNING, wanted)
    assert plan.fingerprint == compare(RUNNING, parse(STREAM + VIEW.replace("bytes > 0", "(bytes>1)"))).fingerprint
    assert plan.fingerprint != compare(wanted, RUNNING).fingerprint
    assert plan.as_dict()["fingerprint"] == plan.fingerprint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("STRING NOT NULL", "STRING"),
        ("INT NOT NULL", "INT"),
        ("INT NOT NULL", "BIGINT"),
        ("INT", "BIGINT"),
        ("INT", "DOUBLE"),
        ("DECIMAL(10,2)", "DECIMAL(12,2)"),
        ("DECIMAL(10,2)", "DECIMAL(12,4)"),
    ],
)
def test_a_loosened_field_is_free(old, new):
    change = only_stream(f"x {old}", f"x {new}")
    assert (change.kind, change.reason) == ("change", "free: what was read stays as it is")
    assert change.details == (f"field loosened: x {old} → x {new}",)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("INT", "INT NOT NULL"),
        ("INT", "BIGINT NOT NULL"),
        ("BIGINT", "INT"),
        ("BIGINT", "DOUBLE"),
        ("INT", "STRING"),
        ("INT", "DECIMAL(20,0)"),
        ("DOUBLE", "DECIMAL(20,2)"),
        ("DATE", "TIMESTAMP"),
        ("DECIMAL(10,2)", "DECIMAL(12,1)"),
        ("DECIMAL(10,2)", "DECIMAL(10,3)"),
        ("DECIMAL(10,2)", "DECIMAL(9,2)"),
        ("DECIMAL(10,2)", "DOUBLE"),
        ("INT, y STRING AS upper('a')", "INT, y STRING AS upper('b')"),
    ],
)
def test_every_other_change_of_a_field_is_refused(old, new):
    assert only_stream(f"x {old}", f"x {new}").kind == "refuse"


def test_what_a_computed_field_reads_keeps_its_type_but_may_be_missing():
    computed = ", y DOUBLE AS `x` / 7"
    assert only_stream(f"x INT{computed}", f"x BIGINT{computed}").details == ("field changed: x INT → x BIGINT",)
    assert only_stream(f"x INT NOT NULL{computed}", f"x INT{computed}").kind == "change"


def test_views_that_read_a_widened_field_get_a_new_version():
    """Also where their own types stay: over a DOUBLE, this condition never holds."""
    views = """CREATE MATERIALIZED VIEW a AS SELECT count(*) AS n FROM s WHERE CAST(x AS STRING) = '5';
    CREATE MATERIALIZED VIEW b AS SELECT x, max(x) AS m FROM s GROUP BY x;
    CREATE MATERIALIZED VIEW c AS SELECT count(*) AS n, max(y) AS m FROM s;"""
    plan = compare(
        parse(f"CREATE STREAM s (x INT, y INT);{views}"), parse(f"CREATE STREAM s (x DOUBLE, y INT);{views}")
    )
    assert [(c.kind, c.name) for c in plan.changes] == [("change", "s"), ("change", "a"), ("change", "b")]
    assert {c.details for c in plan.changes[1:]} == {("type of x: INT → DOUBLE",)}


def only_stream(old, new):
    (change,) = compare(parse(f"CREATE STREAM s ({old})"), parse(f"CREATE STREAM s ({new})")).changes
    return change
