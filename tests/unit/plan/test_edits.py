"""Which edits of a view go on with the rows that are there, and which need a build."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.aggregate.numeric import Count, Sum
from headrace.aggregate.ordered import Max
from headrace.define.catalog import parse
from headrace.define.model import Column, Key, View, Window
from headrace.language.terms import Expression
from headrace.plan.edits import classify
from headrace.types import BIGINT, BOOLEAN, INT, STRING

STREAMS = """CREATE STREAM visits (page STRING, bytes BIGINT, at TIMESTAMP, WATERMARK FOR at);
CREATE STREAM calls (page STRING, bytes BIGINT, at TIMESTAMP, WATERMARK FOR at);
CREATE STREAM small (page STRING, bytes INT, at TIMESTAMP, WATERMARK FOR at);"""
VIEW = """CREATE MATERIALIZED VIEW hits AS SELECT page, count(*) AS n, sum(bytes) AS total
FROM visits WHERE bytes > 0 GROUP BY page, window(at, '10 minutes', '5 minutes');"""

FREE = [
    ("AS n", "AS hits", "column renamed: count(*) AS n → hits"),
    (", sum(bytes) AS total", "", "column removed: sum(bytes) AS total"),
    ("count(*) AS n, sum(bytes) AS total", "sum(bytes) AS total, count(*) AS n", "the order of the columns"),
    ("VIEW hits AS", "VIEW hits SCHEDULE EVERY 1 HOUR AS", "schedule: none → every 1 hour"),
    ("'10 minutes', ", "", "window: 10 minutes every 5 minutes → 5 minutes"),
    ("'10 minutes', '5 minutes'", "'1 hour', '25 minutes'", "window: 10 minutes every 5 minutes → 1 hour every 25 min"),
    (
        "SELECT page,",
        "SELECT page, window_start AS begins,",
        "window: 10 minutes every 5 minutes → 10 minutes every 5 minutes, window_start AS begins",
    ),
    ("AS total", "AS total, count(*) AS again", "column added: count(*) AS again, which is there as n"),
    ("count(*) AS n", "sum(bytes) AS n", "column changed: count(*) AS n → sum(bytes) AS n, which is there as total"),
]
BUILD = [
    ("bytes > 0", "bytes > 1", "where: bytes > 0 → bytes > 1"),
    ("WHERE bytes > 0", "", "where: bytes > 0 → all events"),
    ("GROUP BY page", "GROUP BY page, bytes", "keys: page → page, bytes"),
    ("page, ", "", "keys: page → none"),
    ("SELECT page,", "SELECT page AS p,", "keys: page → page AS p"),
    (", window(at, '10 minutes', '5 minutes')", "", "window: 10 minutes every 5 minutes → all time"),
    ("'10 minutes', '5 minutes'", "'10 minutes'", "window: 10 minutes every 5 minutes → 10 minutes"),
    (
        "window(at, '10 minutes', '5 minutes')",
        "session_window(at, '5 minutes')",
        "window: 10 minutes every 5 minutes → s",
    ),
    ("sum(bytes)", "max(bytes)", "column changed: sum(bytes) AS total → max(bytes) AS total"),
    ("sum(bytes)", "sum(bytes + 1)", "column changed: sum(bytes) AS total → sum(bytes + 1) AS total"),
    (
        "count(*)",
        "count(*) FILTER (WHERE bytes = 1)",
        "column changed: count(*) AS n → count(*) FILTER (WHERE bytes = ",
    ),
    ("AS total", "AS total, min(at) AS first", "column added: min(at) AS first"),
    ("AS total", "AS sum, min(at) AS total", "column changed: sum(bytes) AS total → min(at) AS total"),
    ("FROM visits", "FROM calls", "stream: visits → calls"),
    ("FROM visits", "FROM small", "type of bytes: BIGINT → INT"),
]


def view(text: str) -> View:
    return parse(STREAMS + text).views["hits"]


@pytest.mark.parametrize(("old", "new", "detail"), FREE)
def test_free(old: str, new: str, detail: str) -> None:
    edit = classify(view(VIEW), view(VIEW.replace(old, new)))
    assert (edit.how, len(edit.differences)) == ("free", 1)
    assert edit.details[0].startswith(detail)


@pytest.mark.parametrize(("old", "new", "detail"), BUILD)
def test_build(old: str, new: str, detail: str) -> None:
    edit = classify(view(VIEW), view(VIEW.replace(old, new)))
    assert edit.how == "build"
    assert any(text.startswith(detail) for text in edit.details)


@pytest.mark.parametrize(
    ("gap", "how"),
    [
        ("'30 minutes'", "build"),
        ("CASE WHEN bytes > 9 THEN '1 hour' ELSE '10 minutes' END", "build"),
        ("IF(bytes > 1, INTERVAL 10 MINUTES, '600 seconds')", None),  # it is the same gap
    ],
)
def test_another_gap_of_sessions_is_a_build(gap: str, how: str | None) -> None:
    before = VIEW.replace("window(at, '10 minutes', '5 minutes')", "session_window(at, '10 minutes')")
    edit = classify(view(before), view(before.replace("'10 minutes'", gap)))
    assert (edit.how if edit.differences else None) == how
    named = classify(view(before), view(before.replace("SELECT page,", "SELECT page, window_start AS begins,")))
    assert named.how == "free"


def test_patience_is_free() -> None:
    assert classify(view(VIEW), view(VIEW), ({"s": 0}, {"s": 60_000, "t": 5})).details == (
        "patience: 0 seconds → 1 minute",
    )


def test_nothing_differs() -> None:
    assert classify(view(VIEW), view(VIEW)).differences == ()


def test_names_may_change_places() -> None:
    swapped = VIEW.replace("count(*) AS n, sum(bytes) AS total", "count(*) AS total, sum(bytes) AS n")
    assert classify(view(VIEW), view(swapped)).free


def test_two_equal_columns_are_renamed_each_to_one() -> None:
    before, after = (VIEW.replace("sum(bytes) AS total", f"count(*) AS {m}") for m in ("m", "k"))
    edit = classify(view(before), view(after.replace("AS n", "AS j")))
    assert edit.details == ("column renamed: count(*) AS n → j", "column renamed: count(*) AS m → k")


def test_a_type_that_only_a_dropped_column_read_does_not_matter() -> None:
    before = replace(view(VIEW), where=None, reads=(("bytes", BIGINT),))
    after = replace(before, columns=before.columns[:1], reads=())
    assert classify(before, after).free


X = (Expression.field("x", INT),)
AGGREGATES = [
    Count(),
    Count(X),
    Sum(X),
    Sum((Expression.field("x", BIGINT),)),
    Max(X),
    Max(X, Expression.stored("x > 1", BOOLEAN)),
]
KEYS = [
    Key("a", Expression.field("a", STRING)),
    Key("b", Expression.field("b", STRING)),
    Key("b", Expression.field("a", STRING)),
]
WINDOWS = [None, *(Window(size * 60_000, slide * 60_000) for size, slide in [(1, 1), (10, 5), (5, 5), (6, 4)])]
PARTS = ["streams", "keys", "columns", "window", "where", "schedule_ms", "reads"]


@st.composite
def views(draw: st.DrawFn) -> View:
    names = draw(st.lists(st.sampled_from("nmkj"), min_size=1, max_size=4, unique=True))
    return View(
        "v",
        draw(st.sampled_from([("s",), ("s",), ("s",), ("t",), ("s", "t")])),
        tuple(draw(st.sampled_from([[KEYS[0]], [KEYS[0]], [KEYS[1]], [KEYS[2]], KEYS[:2], []]))),
        tuple(Column(name, draw(st.sampled_from(AGGREGATES))) for name in names),
        draw(st.sampled_from(WINDOWS)),
        draw(st.sampled_from([None, None, Expression.stored("x > 0", BOOLEAN)])),
        draw(st.sampled_from([None, 3_600_000])),
        draw(st.sampled_from([(), (("x", INT),), (("x", BIGINT),)])),
    )


@st.composite
def edits(draw: st.DrawFn) -> tuple[View, View]:
    """Two views that differ in few things, so that both kinds of edit come often."""
    before, other = draw(views()), draw(views())
    changed = draw(st.sets(st.sampled_from(PARTS), max_size=3))
    return before, replace(before, **{name: getattr(other, name) for name in changed})


@given(edits())
def test_an_edit_is_free_if_the_stored_columns_suffice(pair: tuple[View, View]) -> None:
    before, after = pair
    there = [column.aggregate for column in before.columns]
    pane = [math.gcd(v.window.size_ms, v.window.slide_ms) if v.window else None for v in pair]
    types = dict(before.reads)
    rows_fit = (
        all(column.aggregate in there for column in after.columns)
        and (before.streams, before.keys, before.where) == (after.streams, after.keys, after.where)
        and pane[0] == pane[1]
        and all(types.get(name, of) == of for name, of in after.reads)
    )
    edit = classify(before, after)
    assert edit.free == rows_fit
    same = replace(before, reads=()) == replace(after, reads=()) and edit.free
    assert (not edit.differences) == same
