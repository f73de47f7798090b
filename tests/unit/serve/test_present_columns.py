"""What DuckDB computes of presented rows is what Python computes of each one."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from headrace.errors import DefinitionError
from headrace.language.check import Scope, check
from headrace.language.expressions import parse_tree
from headrace.language.source_text import SourceText
from headrace.language.terms import Expression
from headrace.serve import present_columns
from headrace.serve.present_columns import select_rows, shape_columns
from headrace.serve.shaping import Computed, Ordering, Shaping
from headrace.types import BOOLEAN, arrow_type
from tests.spark.expressions import SAMPLES
from tests.spark.hostile import EXPRESSIONS
from tests.spark.over_aggregates import MORE, WIDE, drawn, rows

TYPES = {**{name: of for name, (of, _) in SAMPLES.items()}, **WIDE}


@pytest.fixture(scope="module")
def piece() -> pa.RecordBatch:
    presented = rows().select(list(TYPES)).combine_chunks().to_batches()[0]
    arrays = [column.cast(arrow_type(of)) for column, of in zip(presented.columns, TYPES.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(TYPES))


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'").fetchall()
        yield connection


def shaping(outputs: tuple[Computed, ...] = (), having: Computed | None = None, **more: Any) -> Shaping:
    """Over rows that are all keys, so that expressions are over any type."""
    every = frozenset(range(len(TYPES)))
    return Shaping(
        first=len(TYPES),
        columns=0,
        types=tuple(TYPES.items()),
        missing=0,
        outputs=tuple((f"o{at}", each) for at, each in enumerate(outputs)),
        having=having,
        order=more.get("order", ()),
        used=every,
        decisive=every,
    )


def compiled(text: str) -> Computed | None:
    """The expression if both compute it."""
    source = SourceText(text)
    try:
        expression = check(source, parse_tree(source), Scope(TYPES))
        computed = Computed.of(expression, tuple(TYPES.items()))
    except DefinitionError:
        return None
    return computed if computed.sql else None


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def test_expressions_have_equal_values(
    piece: pa.RecordBatch, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(13)
    texts = dict.fromkeys([*EXPRESSIONS, *MORE, *(drawn(chance, chance.choice((1, 2, 3))) for _ in range(150))])
    every = {text: computed for text in texts if (computed := compiled(text))}
    assert len(every) > 200
    different, failed = [], 0
    for text, computed in every.items():
        shapes = shaping((computed,))
        monkeypatch.setattr(present_columns, "FEW", 0)
        failed += present_columns._by_duckdb(shapes, [computed], piece, connection) is None
        by_duckdb = shape_columns(shapes, piece, connection).column("o0")
        monkeypatch.setattr(present_columns, "FEW", len(piece))
        one_by_one = shape_columns(shapes, piece, connection).column("o0")
        assert by_duckdb.type == one_by_one.type == arrow_type(computed.type)
        for a, b in zip(by_duckdb.to_pylist(), one_by_one.to_pylist(), strict=True):
            if not same(a, b):
                different.append(f"{text} ({computed.type}): DuckDB {a!r}, Python {b!r}")
                break
    assert not different, "\n".join(different)
    assert failed < len(every) / 3, "DuckDB computes most of them"


@pytest.mark.parametrize("having", ["n > 3", "yes", "text IS NOT NULL AND price < 2", "total > cents OR x = 1.5", None])
def test_having_and_order_select_equal_rows(
    piece: pa.RecordBatch, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, having: str | None
) -> None:
    condition = compiled(having) if having else None
    assert (condition is None) is (having is None)
    orders = [
        Ordering(computed, descending=descending, nulls_first=not descending)
        for text, descending in (("x", True), ("text", False), ("price", True), ("time", False))
        if (computed := compiled(text))
    ]
    assert len(orders) == 4
    for items in ((), *((item,) for item in orders), tuple(orders[::-1])):
        shapes = shaping((), condition, order=items)
        expected = shapes.select(list(zip(*(column.to_pylist() for column in piece.columns), strict=True)))
        monkeypatch.setattr(present_columns, "FEW", 0)
        if condition or items:
            assert select_rows(shapes, piece) == expected
        shaped = shape_columns(shapes, piece, connection)
        monkeypatch.setattr(present_columns, "FEW", len(piece))
        one_by_one = shape_columns(shapes, piece, connection)
        assert repr(shaped.to_pylist()) == repr(one_by_one.to_pylist())
        assert shaped.num_rows == len(expected)


def test_an_expression_that_duckdb_fails_at_is_computed_by_python(
    piece: pa.RecordBatch, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(present_columns, "FEW", 0)
    fails, works = compiled("CAST(big * 2 AS BIGINT)"), compiled("n > 3")
    assert fails is not None
    assert works is not None
    assert present_columns._by_duckdb(shaping(), [fails], piece, connection) is None
    shaped = shape_columns(shaping((fails, works)), piece, connection)
    places = {name: at for at, name in enumerate(TYPES)}
    expected = [fails.evaluate(row) for row in zip(*(column.to_pylist() for column in piece.columns), strict=True)]
    assert shaped.column("o0").to_pylist() == expected
    assert shaped.column("o1").to_pylist() == [
        None if n is None else n > 3 for n in piece.column(places["n"]).to_pylist()
    ]


def test_names_that_differ_in_case_are_computed_by_python(connection: duckdb.DuckDBPyConnection) -> None:
    types = (("yes", BOOLEAN), ("Yes", BOOLEAN))
    piece = pa.RecordBatch.from_arrays([pa.array([True] * 600), pa.array([False] * 600)], names=["yes", "Yes"])
    computed = Computed.of(Expression.field("Yes", BOOLEAN), types)
    used = frozenset({0, 1})
    shapes = Shaping(2, 0, types, 0, (("o", computed),), None, (), used, used)
    assert shape_columns(shapes, piece, connection).column("o").to_pylist() == [False] * 600
