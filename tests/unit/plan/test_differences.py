"""A plan says what changes, what follows from it, and what cannot be done."""

from __future__ import annotations

import json
import re

import pytest

from headrace.define.catalog import Catalog, parse
from headrace.plan.cost import UNKNOWN, Cost, Costs, Size
from headrace.plan.differences import compare
from headrace.plan.planned_change import PlannedChange
from tests import wording

STREAM = "CREATE STREAM visits (page STRING, bytes BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);"
VIEW = """CREATE MATERIALIZED VIEW hits AS
SELECT page, count(*) AS n, sum(bytes) AS bytes FROM visits WHERE bytes > 0 GROUP BY page, window(at, '1 minute');"""
RUNNING = parse(STREAM + VIEW)


LOG = Size(2_000, 50)


def only(text, costs=UNKNOWN):
    (change,) = compare(RUNNING, parse(text), costs).changes
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
    assert plan.changes[0].details == (
        "page STRING",
        "bytes BIGINT",
        "at TIMESTAMP",
        "event time: at",
        "patience: 1 minute",
    )
    assert plan.changes[1].details == (
        "stream: visits",
        "where: bytes > 0",
        "keys: page",
        "window: 1 minute",
        "column: count(*) AS n",
        "column: sum(bytes) AS bytes",
    )


def test_a_stream_without_a_watermark_or_of_text_says_so():
    text = "CREATE STREAM lines (value STRING, low STRING AS lower(value)) FORMAT TEXT;"
    assert compare(Catalog(), parse(text)).changes[0].details == (
        "value STRING",
        "low STRING AS lower(value)",
        "event time: _arrived, the time of arrival",
        "format: TEXT",
    )


def test_drop_views_first():
    plan = compare(RUNNING, Catalog())
    assert [(c.kind, c.what) for c in plan.changes] == [("drop", "view"), ("drop", "stream")]
    wording.check(plan.changes[1].reason)
    assert not plan.only_creates


def test_an_edit_that_needs_a_build_says_what_it_reads():
    target = parse(STREAM + VIEW.replace("bytes > 0", "bytes > 1"))
    (change,) = compare(RUNNING, target, Costs({"visits": Size(90_000_000, 4_000)}.get)).changes
    assert (change.kind, change.what, change.how) == ("change", "view", "build")
    assert change.details == ("where: bytes > 0 → bytes > 1",)
    wording.check(change.reason, "90,000,000", 3)
    assert change.cost == Cost(90_000_000, 4_000, 184.0, measured=False)
    wording.check(only(STREAM + VIEW.replace("bytes > 0", "bytes > 1")).reason)


def test_the_estimate_uses_the_measured_speed_of_builds():
    (change,) = compare(RUNNING, parse(STREAM + VIEW.replace("> 0", "> 1")), Costs(lambda _: LOG, 1_000)).changes
    assert change.cost == Cost(2_000, 50, 6.0, measured=True)


def test_a_free_edit_reads_nothing():
    change = only(STREAM + VIEW.replace("count(*) AS n", "count(*) AS hits"), Costs(lambda _: LOG))
    assert (change.how, change.cost, change.reason) == ("free", None, "free: no event is read again, the rows stay")
    assert change.details == ("column renamed: count(*) AS n → hits",)


def test_an_edit_of_both_kinds_is_a_build_and_names_each():
    change = only(STREAM + VIEW.replace("count(*) AS n", "count(*) AS hits, max(bytes) AS most"))
    assert change.how == "build"
    assert change.details == (
        "column renamed: count(*) AS n → hits (free on its own)",
        "column added: max(bytes) AS most",
    )


def test_a_view_over_no_events_serves_at_once():
    changes = compare(Catalog(), RUNNING, Costs(lambda _: Size(0, 0))).changes
    wording.check(changes[1].reason)


def test_a_view_of_another_stream():
    other = STREAM.replace("visits", "calls")
    plan = compare(RUNNING, parse(STREAM + other + VIEW.replace("visits", "calls")))
    assert plan.changes[1].details == ("stream: visits → calls",)


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        ("bytes BIGINT", "bytes INT", ("BIGINT",)),
        ("page STRING, bytes BIGINT", "bytes BIGINT, page STRING", ()),
        (", WATERMARK FOR at AS at - INTERVAL 1 MINUTE", "", ()),
    ],
)
def test_a_changed_stream_is_refused_with_a_fix(old, new, values):
    plan = compare(parse(STREAM), parse(STREAM.replace(old, new)))
    wording.check(plan.refused[0].details[0], *values)
    wording.check(plan.refused[0].reason)


@pytest.mark.parametrize(
    "fields",
    [
        "x STRING",
        "country STRING, x STRING",
        "x STRING, tags ARRAY<STRING>, address STRUCT<city: STRING, zip: INT>",
        "x STRING, low STRING AS lower(x)",
    ],
)
def test_an_added_field_is_free_at_any_position(fields):
    change = only_stream("x STRING, y INT", f"{fields}, y INT, z INT")
    assert (change.kind, change.how) == ("change", "free")
    wording.check(change.reason)
    details = [f"field added: {field}" for field in re.split(", (?![^<]*>)", fields) if field != "x STRING"]
    assert change.details == (*details, "field added: z INT")


def test_fields_are_added_and_loosened_at_once():
    change = only_stream("x INT", "y STRING AS CAST(x AS STRING), x BIGINT, z INT")
    wording.check(change.reason)
    assert change.details == (
        "field loosened: x INT → x BIGINT",
        "field added: y STRING AS CAST(x AS STRING)",
        "field added: z INT",
    )


def test_an_added_field_is_nullable_or_refused():
    change = only_stream("x INT", "x INT, y INT, code INT NOT NULL")
    assert (change.kind, change.details) == ("refuse", ("field added: code INT NOT NULL", "field added: y INT"))
    wording.check(change.reason, "NOT NULL")
    wording.check(only_stream("x INT", "x STRING, code INT NOT NULL").reason)
    wording.check(only_stream("x INT, y INT", "y INT, z INT, x INT").details[0])


def test_a_removed_field_is_refused():
    (change,) = compare(parse(STREAM), parse(STREAM.replace("page STRING, ", ""))).changes
    assert (change.kind, change.details) == ("refuse", ("field removed: page STRING",))


def test_patience_is_free_for_the_stream_and_each_of_its_views():
    changes = compare(RUNNING, parse(STREAM.replace("1 MINUTE", "5 MINUTES") + VIEW)).changes
    assert [(c.what, c.name, c.how) for c in changes] == [("stream", "visits", "free"), ("view", "hits", "free")]
    assert {c.details for c in changes} == {("patience: 1 minute → 5 minutes",)}
    wording.check(changes[0].reason)


def test_an_idle_timeout_is_free():
    after = parse(STREAM.replace(");", ") WITH (idle_timeout = '5 minutes');") + VIEW)
    (change,) = compare(RUNNING, after).changes
    assert (change.what, change.how, change.details) == ("stream", "free", ("idle time-out: none → 5 minutes",))
    (back,) = compare(after, RUNNING).changes
    assert (back.how, back.details) == ("free", ("idle time-out: 5 minutes → none",))
    assert "idle time-out: 5 minutes" in compare(parse(""), after).changes[0].details


def test_a_plan_is_json():
    content = json.loads(json.dumps(compare(RUNNING, Catalog()).as_dict()))
    assert content["changes"][0] == {
        "kind": "drop",
        "what": "view",
        "name": "hits",
        "how": "free",
        "reason": "its rows are deleted; the log keeps every event",
        "details": [],
        "cost": None,
        "hint": None,
    }
    assert (content["empty"], content["only_creates"]) == (False, False)


def test_a_plan_comes_back_from_json():
    plan = compare(Catalog(), RUNNING, Costs(lambda _: LOG))
    content = json.loads(json.dumps(plan.as_dict()))
    cost = {"events": 2_000, "bytes": 50, "seconds": 4.004, "measured": False, "busy": None}
    assert content["changes"][1]["cost"] == cost
    assert tuple(map(PlannedChange.from_dict, content["changes"])) == plan.changes


def test_a_join_as_of_the_time_of_the_event_to_a_table_without_an_event_time_has_a_hint():
    derived = "CREATE STREAM known AS SELECT v.page, c.kind, v.at FROM visits v JOIN pages c ON v.page = c.id;"
    table = "CREATE TABLE pages (id STRING PRIMARY KEY, kind STRING);"
    as_of = derived.replace("JOIN pages c", "JOIN pages FOR SYSTEM_TIME AS OF v.at c")
    timed = "CREATE TABLE pages (id STRING PRIMARY KEY, kind STRING, t TIMESTAMP NOT NULL, WATERMARK FOR t AS t);"
    view = "CREATE MATERIALIZED VIEW kinds AS SELECT kind, count(*) AS n FROM known GROUP BY kind;"

    def hints(text):
        return {change.name: change.hint for change in compare(Catalog(), parse(STREAM + text)).changes if change.hint}

    assert set(hints(table + as_of + view)) == {"known", "kinds"}
    (hint,) = set(hints(table + as_of + view).values())
    wording.check(hint, "pages", "FOR SYSTEM_TIME AS OF")
    assert hints(table + derived + view) == hints(timed + as_of + view) == {}


def test_a_decimal_without_precision_has_a_hint():
    texts = (
        "CREATE STREAM numbers (text STRING, whole INT, price DECIMAL(12,2));"
        "CREATE STREAM prices (text STRING, price NUMERIC);"
        "CREATE TABLE costs (id STRING PRIMARY KEY, cost DECIMAL);"
        "CREATE STREAM made AS SELECT text, CAST(text AS DEC) AS n FROM numbers;"
        "CREATE MATERIALIZED VIEW totals AS SELECT sum((text->>'price')::numeric) AS total FROM numbers;"
        "CREATE MATERIALIZED VIEW cents AS SELECT sum(text::numeric(12, 2)) AS n, max(whole + price) AS m FROM numbers;"
    )
    changes = compare(Catalog(), parse(texts)).changes
    part = "which NUMERIC and DECIMAL without precision are, has no digits after the point; write NUMERIC(38, 9)"
    assert {change.name for change in changes if part in (change.hint or "")} == {"prices", "costs", "made", "totals"}
    exact = parse(re.sub(r"\b(NUMERIC|DECIMAL|DEC)\b(?!\()", "NUMERIC(38, 9)", texts, flags=re.IGNORECASE))
    for plan in (compare(Catalog(), exact), compare(parse(texts), Catalog())):
        assert not any(part in (change.hint or "") for change in plan.changes)


def test_a_view_that_only_spark_computes_has_a_hint():
    hint = "Spark jobs will update it, not the faster fused lane; key 'page': only Spark computes initcap(page)"
    slow = STREAM + VIEW.replace("SELECT page,", "SELECT initcap(page) AS page,").replace("BY page", "BY initcap(page)")
    plan = compare(Catalog(), parse(slow))
    assert [change.hint for change in plan.changes] == [None, hint]
    assert only(slow).hint == hint
    assert tuple(map(PlannedChange.from_dict, json.loads(json.dumps(plan.as_dict()))["changes"])) == plan.changes


def test_plans_have_different_fingerprints():
    target = parse(STREAM + VIEW.replace("bytes > 0", "bytes > 1"))
    plan = compare(RUNNING, target)
    assert plan.fingerprint == compare(RUNNING, parse(STREAM + VIEW.replace("bytes > 0", "(bytes>1)"))).fingerprint
    assert plan.fingerprint != compare(target, RUNNING).fingerprint
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
    assert (change.kind, change.reason) == ("change", "free: stored events do not change")
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


@pytest.mark.parametrize(("of", "values"), [("BIGINT", ("2", "53")), ("DECIMAL(10,2)", ("15",))])
def test_a_number_that_a_double_would_round_says_why_and_what_to_do(of, values):
    (detail,) = only_stream(f"x {of}", "x DOUBLE").details
    wording.check(detail, "DOUBLE", of)
    wording.check(detail, *values)
    wording.check(detail, "CAST(x AS DOUBLE)", of)


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
    assert {c.details[0] for c in plan.changes[1:]} == {"type of x: INT → DOUBLE"}
    assert plan.changes[2].details[1:] == ("types of the keys: INT → DOUBLE", "argument of m: INT → DOUBLE")
    assert {c.how for c in plan.changes[1:]} == {"build"}


def only_stream(old, new):
    (change,) = compare(parse(f"CREATE STREAM s ({old})"), parse(f"CREATE STREAM s ({new})")).changes
    return change
