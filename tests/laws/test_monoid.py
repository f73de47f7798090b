"""Each aggregate is a commutative monoid: any split and any order of the events gives one result."""

from __future__ import annotations

from functools import reduce
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.aggregate import INTERNAL, REGISTRY, Aggregate, Partial, PartialColumn
from headrace.engine.duckdb_terms import duckdb_type
from headrace.types import DOUBLE, INT, STRING
from tests.aggregates import TEST_ONLY, case_name, every_aggregate, expressions

from .cases import TYPES, events

OURS = (*REGISTRY.values(), *INTERNAL.values())
CLASSES = (*OURS, *TEST_ONLY)
AGGREGATES = [*every_aggregate(OURS, TYPES), *every_aggregate(TEST_ONLY, (STRING, INT, DOUBLE))]
EVERY = pytest.mark.parametrize("aggregate", AGGREGATES, ids=case_name)


def those(aggregates: list[Aggregate]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("aggregate", aggregates, ids=case_name)


def summarise(aggregate: Aggregate, events: list[Any]) -> Partial:
    return reduce(aggregate.merge, (aggregate.lift(*event) for event in events), aggregate.zero)


@EVERY
@given(data=st.data())
def test_zero_changes_nothing(aggregate: Aggregate, data: st.DataObject) -> None:
    partial = summarise(aggregate, data.draw(events(aggregate, 5)))
    assert aggregate.agrees(aggregate.merge(aggregate.zero, partial), partial)
    assert aggregate.agrees(aggregate.merge(partial, aggregate.zero), partial)


@EVERY
@given(data=st.data())
def test_any_order_and_any_split(aggregate: Aggregate, data: st.DataObject) -> None:
    rows = data.draw(events(aggregate, 12))
    shuffled = data.draw(st.permutations(rows))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    parts = [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    total = reduce(aggregate.merge, (summarise(aggregate, part) for part in parts), aggregate.zero)
    whole = summarise(aggregate, rows)
    assert aggregate.agrees(total, whole), (aggregate.present(total), aggregate.present(whole))


@EVERY
@given(data=st.data())
def test_commutative_and_associative(aggregate: Aggregate, data: st.DataObject) -> None:
    a, b, c = (summarise(aggregate, data.draw(events(aggregate, 4, first))) for first in (0, 10, 20))
    assert aggregate.agrees(aggregate.merge(a, b), aggregate.merge(b, a))
    left = aggregate.merge(aggregate.merge(a, b), c)
    right = aggregate.merge(a, aggregate.merge(b, c))
    assert aggregate.agrees(left, right)


@those([aggregate for aggregate in AGGREGATES if aggregate.subtracts])
@given(data=st.data())
def test_subtract_undoes_merge(aggregate: Aggregate, data: st.DataObject) -> None:
    a, b = (summarise(aggregate, data.draw(events(aggregate, 4, first))) for first in (0, 10))
    total = aggregate.merge(a, b)
    assert aggregate.present(aggregate.subtract(total, b)) == aggregate.present(a)
    texts = [[_literal(value, column) for value, column in zip(p, aggregate.columns, strict=True)] for p in (total, b)]
    (in_sql,) = duckdb.sql(f"SELECT {', '.join(aggregate.subtract_columns(*texts))}").fetchall()
    assert aggregate.present(in_sql) == aggregate.present(a)


def _literal(value: Any, column: PartialColumn) -> str:
    return f"CAST({'NULL' if value is None else repr(str(value))} AS {duckdb_type(column.type)})"


@those([aggregate for aggregate in AGGREGATES if any(column.merge.many for column in aggregate.columns)])
@given(data=st.data())
def test_merging_many_values_equals_merging_pairs(aggregate: Aggregate, data: st.DataObject) -> None:
    partials = [summarise(aggregate, data.draw(events(aggregate, 3, first))) for first in (0, 10, 20)]
    columns = [[value for value in values if value is not None] for values in zip(*partials, strict=True)]
    pairs = [(column.merge, some) for column, some in zip(aggregate.columns, columns, strict=True)]
    at_once = tuple(merge.merge(some) if some else None for merge, some in pairs)
    assert aggregate.agrees(at_once, tuple(reduce(merge.pair, some) if some else None for merge, some in pairs))


@EVERY
def test_no_event_presents_the_empty_value(aggregate: Aggregate) -> None:
    assert aggregate.present(aggregate.zero) == aggregate.empty
    assert {column.merge for column in aggregate.columns if column.merge.fold is None} <= set(aggregate.functions)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.name)
def test_examples_hold_and_agrees_tells_values_apart(cls: type[Aggregate]) -> None:
    assert cls.examples
    results = []
    for example in cls.examples:
        aggregate = cls(expressions(example.types), None, example.parameters)
        assert cls.refuse(aggregate.arguments, aggregate.parameters) is None
        partial = summarise(aggregate, list(example.events))
        result = aggregate.present(partial)
        assert result == (pytest.approx(example.result, rel=1e-12) if isinstance(result, float) else example.result)
        # Partials with equal results may differ, as those of one event and of none do for a sample's variance.
        assert example.result == cls.empty or not aggregate.agrees(partial, aggregate.zero)
        assert aggregate.agrees(partial, partial)
        results.append(example.result)
    assert [result for result in results if result != cls.empty]
