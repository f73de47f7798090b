"""Composed steps: fewer of them, with the same rows, and nothing computed twice that costs much."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.define.model import Field, Stream
from headrace.define.relation import Branch, Explode, Filter, Project, Relation, RowStep
from headrace.define.relation_rewrites import LONGEST, composed
from headrace.deliver.derived_events import python_rows
from headrace.engine.duckdb_relations import limits, rows_sql
from headrace.language.check import parse_expression
from headrace.types import BIGINT, INT, STRING, Type, array, arrow_type, decimal

FIELDS = {"a": INT, "b": BIGINT, "s": STRING, "price": decimal(10, 2), "tags": array(STRING)}
STREAM = Stream("events", tuple(Field(name, of) for name, of in FIELDS.items()))
AT = datetime(2026, 3, 1, tzinfo=UTC)
OURS = ("_commit", "_position")
LARGEST = 2**31 - 1


def chain(*steps: str | dict[str, str]) -> Branch:
    """A branch: a text is a condition, a dictionary is a projection."""
    types: dict[str, Type] = dict(FIELDS)
    made: list[RowStep] = []
    for step in steps:
        if isinstance(step, str):
            made.append(Filter(parse_expression(step, types)))
        else:
            columns = tuple((name, parse_expression(text, types)) for name, text in step.items())
            made.append(Project(columns))
            types = {name: of.type for name, of in columns}
    return Branch("events", tuple(FIELDS.items()), tuple(made))


def texts(branch: Branch) -> list[str | dict[str, str]]:
    """Its composed steps, as `chain` takes them."""
    return [
        step.condition.sql if isinstance(step, Filter) else {name: of.sql for name, of in step.columns}
        for step in composed(branch).steps
        if isinstance(step, Filter | Project)
    ]


def test_filters_and_projections_become_one_of_each() -> None:
    branch = chain("a > 0", {"x": "a + 9", "s": "lower(s)"}, "x < 7 OR x > 9", {"x": "x * 2", "s": "s"}, "x <> 4")
    assert texts(branch) == [
        "a > 0 AND (a + 9 < 7 OR a + 9 > 9) AND (a + 9) * 2 <> 4",
        {"x": "(a + 9) * 2", "s": "lower(s)"},
    ]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # The second filter reads what the projection computes at some cost.
        (("a > 0", {"s": "lower(s)"}, "s <> 'x'"), None),
        # A costly condition is not checked for rows that an earlier one leaves out.
        (("a > 0", "s LIKE '%x%'", "a < 9", "b > 0"), ["a > 0", "s LIKE '%x%'", "a < 9 AND b > 0"]),
        (({"a": "a", "s": "s"}, "s LIKE '%x%'"), ["s LIKE '%x%'", {"a": "a", "s": "s"}]),
        # Two columns of one costly value.
        (({"s": "upper(s)"}, {"x": "s", "y": "s"}), None),
        (({"n": "length(s)", "a": "a"}, {"m": "n", "a": "a"}), [{"m": "length(s)", "a": "a"}]),
        # Renamed and swapped.
        (({"a": "b", "b": "a"}, "a > 1", {"c": "a - b"}), ["b > 1", {"c": "b - a"}]),
        # DECIMAL + constant has another type than DECIMAL + column.
        (({"p": "price", "one": "1"}, {"sum": "p + one"}), None),
        (({"p": "price + 1"}, {"p": "p + 1"}), None),
    ],
)
def test_known_steps(steps: Any, expected: Any) -> None:
    branch = chain(*steps)
    assert texts(branch) == (list(steps) if expected is None else expected)


def test_other_steps_stay_between_those_around_them() -> None:
    first, last = chain({"a": "a", "tags": "tags"}, "a > 0"), Filter(parse_expression("tag <> ''", {"tag": STRING}))
    explode = Explode(parse_expression("tags", FIELDS), ("tag",), (STRING,))
    steps = composed(Branch("events", first.reads, (*first.steps, explode, last))).steps
    assert [type(step).__name__ for step in steps] == ["Filter", "Project", "Explode", "Filter"]


def test_expressions_do_not_grow_without_limit() -> None:
    branch = chain(*[{"a": "a * a + a"}] * 40)
    longest = max(len(of.sql) for step in composed(branch).steps if isinstance(step, Project) for _, of in step.columns)
    assert longest < 4 * LONGEST


CONDITIONS = ["x > 3 OR y < 2", "x + y > 7", "x <= 5", "y IS NULL OR x = 1", "NOT (x < 0)", "s = 'a' OR x > y"]
CONDITIONS += ["x - 1 < 2", "x + 3 > 7 OR x + 9 < 1", "3 <= x * 2 OR x * 2 + 5 <> 9", "y + 7 <=> 8 OR 1 + y = 2"]
CONDITIONS += ["s LIKE 'a%' OR x > 9", "y * 3 BETWEEN 0 AND 40", "x IN (1, 2, 3) OR s IS NOT NULL"]
NUMBERS = ["x", "y", "x + 1", "y - 7", "x * 2", "x + y", "-x", "y * y", "length(s)", "y + 5", "x + 2147483647"]
NUMBERS += ["CASE WHEN x > 0 THEN y ELSE 1 END"]
STRINGS = ["s", "upper(s)", "concat(s, 'a')"]
STEPS = st.lists(
    st.one_of(
        st.sampled_from(CONDITIONS),
        st.builds(
            lambda x, y, s: {"x": x, "y": y, "s": s},
            st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), st.sampled_from(STRINGS),
        ),
    ),
    max_size=8,
)  # fmt: skip
EDGES = [0, 1, 2, 3, -1, 7, LARGEST, -LARGEST - 1, LARGEST // 2 + 1]
VALUES = st.tuples(
    st.none() | st.sampled_from(EDGES),
    st.none() | st.sampled_from([*EDGES, 2**63 - 1, -(2**63), 2**62]),
    st.none() | st.sampled_from(["a", "A", "b", ""]),
)


@example(False, ["x - 1 < 2"], [(-LARGEST - 1, None, None)])
@example(False, ["x * 2 + 1 <> 9 OR x < 1"], [(LARGEST // 2, None, None), (LARGEST // 2 + 1, None, None)])
@given(st.booleans(), STEPS, st.lists(VALUES, min_size=1, max_size=6))
def test_composed_steps_make_the_rows_that_python_makes(
    swapped: bool, steps: list[Any], values: list[tuple[int | None, int | None, str | None]]
) -> None:
    first = {"x": "b", "y": "a", "s": "s"} if swapped else {"x": "a", "y": "b", "s": "s"}
    branch = chain(first, *steps)
    table = events(values)
    last = next(step for step in reversed(branch.steps) if isinstance(step, Project))
    relation = Relation((branch,), tuple((name, of.type) for name, of in last.columns), None)
    expected = rows_by_python(relation, table)
    assert rows_by_python(Relation((composed(branch),), relation.fields, None), table) == expected
    limited = limits(relation, STREAM)
    beyond = any(abs(row[name] or 0) > limit for row in table.to_pylist() for name, limit in limited.items())
    for fewer_steps in (False,) if beyond else (False, True):
        sql = rows_sql(relation, STREAM, OURS, "events", fewer_steps=fewer_steps)
        try:
            rows = CONNECTION.sql(sql).fetchall()
        except duckdb.OutOfRangeException:  # then Spark makes the rows
            continue
        assert sorted(rows, key=repr) == sorted(expected, key=repr)


CONNECTION = duckdb.connect(config={"threads": 1})


def events(values: list[tuple[int | None, int | None, str | None]]) -> pa.Table:
    schema = pa.schema(
        [*((name, pa.int64()) for name in OURS), ("_arrived", pa.timestamp("us", "UTC"))]
        + [(name, arrow_type(of)) for name, of in FIELDS.items()]
    )
    rows = [
        {"_commit": 0, "_position": at, "_arrived": AT, "a": a, "b": b, "s": s} for at, (a, b, s) in enumerate(values)
    ]
    table = pa.Table.from_pylist(rows, schema)
    CONNECTION.register("events", table)
    return table


def rows_by_python(relation: Relation, table: pa.Table) -> list[tuple[Any, ...]]:
    names = [*OURS, *(name for name, _ in relation.fields)]
    return [tuple(row[name] for name in names) for row in python_rows(relation, STREAM, table)]
