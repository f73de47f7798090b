"""Parameters that are lists or may be left out, in SQL, Python and JSON alike; partials that aggregates share."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint, from_json, to_json
from headrace.define.model import View
from headrace.errors import DefinitionError
from headrace.plan.edits import classify
from headrace.store.partial_columns import partials_of
from tests import wording

FIELDS = "page STRING, ms DOUBLE, bytes BIGINT"
STREAM = f"CREATE STREAM visits ({FIELDS});"


def view(selected: str) -> View:
    return parse(f"{STREAM} CREATE MATERIALIZED VIEW v AS SELECT {selected} FROM visits;").views["v"]


def test_both_spellings_of_a_list_and_python_are_equal() -> None:
    in_sql = view(
        "approx_percentile(ms, array(0.5, 0.9)) AS a, approx_percentile(ms, 0.5, 1000) AS b, "
        "histogram(bytes, array(-1, 2.5)) AS c, approx_top_k(page, 3) AS d, approx_top_k(page, 3, 50) AS e"
    )
    events = hr.Stream("visits", FIELDS)
    in_python = events.agg(
        a=hr.approx_percentile("ms", [0.5, 0.9]),
        b=hr.approx_percentile("ms", 0.5, accuracy=1000),
        c=hr.histogram("bytes", edges=[-1, 2.5]),
        d=hr.approx_top_k("page", 3),
        e=hr.approx_top_k("page", 3, 50),
    )
    assert hr.View("v", in_python) == in_sql
    assert view("approx_percentile(ms, ARRAY[0.5, 0.9]) AS a") == view("approx_percentile(ms, array(0.5, 0.9)) AS a")
    assert from_json(to_json(in_sql)) == in_sql
    written = ", ".join(f"{column.aggregate.sql} AS {column.name}" for column in in_sql.columns)
    assert fingerprint(view(written)) == fingerprint(in_sql)


@pytest.mark.parametrize(
    ("percentage", "values"),
    [([], ("percentage",)), (["x"], ()), ([0.5, 2], ("2",))],
)
def test_a_wrong_list_in_python_is_refused(percentage: object, values: tuple[str, ...]) -> None:
    events = hr.Stream("visits", FIELDS)
    with wording.raises(DefinitionError, *values):
        hr.View("v", events.agg(p=hr.approx_percentile("ms", percentage)))


def test_columns_of_one_sketch_or_of_the_same_moments_share_it() -> None:
    percentiles = "approx_percentile(ms, 0.5) AS a, approx_percentile(ms, {}) AS b"
    shared = view(f"{percentiles.format('array(0.9, 0.99)')}, stddev(ms) AS c, var_pop(ms) AS d")
    assert len(partials_of(shared)) == 2
    apart = view(f"{percentiles.format('0.5, 10')}, stddev(ms) AS c, stddev(bytes) AS d")
    assert len(partials_of(apart)) == 4


@pytest.mark.parametrize(
    ("before", "after", "is_free"),
    [
        ("approx_percentile(ms, 0.5)", "approx_percentile(ms, 0.95)", True),
        ("approx_percentile(ms, 0.5)", "approx_percentile(ms, array(0.5, 0.95))", True),
        ("approx_percentile(ms, 0.5)", "approx_percentile(ms, 0.5, 1000)", False),
        ("approx_top_k(page, 3)", "approx_top_k(page, 10)", True),
        ("stddev(ms)", "variance(ms)", True),
        ("stddev(ms)", "stddev(bytes)", False),
        ("histogram(ms, array(1))", "histogram(ms, array(1, 2))", False),
    ],
)
def test_another_view_of_the_same_partials_needs_no_build(before: str, after: str, is_free: bool) -> None:
    edit = classify(view(f"{before} AS x"), view(f"{after} AS x"))
    assert edit.free is is_free, edit
