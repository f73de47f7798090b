"""Each aggregate is a commutative monoid: any split and any order of the events gives one result."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.aggregate import Aggregate, Partial
from headrace.types import Type

from .cases import every_case, values

CASES = every_case()
IDS = [f"{aggregate.name}-{of or 'star'}" for aggregate, of in CASES]


def summarise(aggregate: Aggregate, events: list[Any]) -> Partial:
    return reduce(aggregate.merge, map(aggregate.lift, events), aggregate.zero)


@pytest.mark.parametrize(("aggregate", "of"), CASES, ids=IDS)
@given(data=st.data())
def test_zero_changes_nothing(aggregate: Aggregate, of: Type | None, data: st.DataObject) -> None:
    partial = summarise(aggregate, data.draw(st.lists(values(of) if of else st.none(), max_size=5)))
    assert aggregate.agrees(aggregate.merge(aggregate.zero, partial), partial)
    assert aggregate.agrees(aggregate.merge(partial, aggregate.zero), partial)


@pytest.mark.parametrize(("aggregate", "of"), CASES, ids=IDS)
@given(data=st.data())
def test_any_order_and_any_split(aggregate: Aggregate, of: Type | None, data: st.DataObject) -> None:
    events = data.draw(st.lists(values(of) if of else st.none(), max_size=12))
    shuffled = data.draw(st.permutations(events))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=3)))
    parts = [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]
    merged = reduce(aggregate.merge, (summarise(aggregate, part) for part in parts), aggregate.zero)
    whole = summarise(aggregate, events)
    assert aggregate.agrees(merged, whole), (aggregate.present(merged), aggregate.present(whole))


@pytest.mark.parametrize(("aggregate", "of"), CASES, ids=IDS)
@given(data=st.data())
def test_commutative_and_associative(aggregate: Aggregate, of: Type | None, data: st.DataObject) -> None:
    some = st.lists(values(of) if of else st.none(), max_size=4)
    a, b, c = (summarise(aggregate, data.draw(some)) for _ in range(3))
    assert aggregate.agrees(aggregate.merge(a, b), aggregate.merge(b, a))
    left = aggregate.merge(aggregate.merge(a, b), c)
    right = aggregate.merge(a, aggregate.merge(b, c))
    assert aggregate.agrees(left, right)


def test_agrees_can_say_no() -> None:
    for aggregate, of in CASES:
        seen = {"STRING": "a", "DATE": None, "TIMESTAMP": None}.get(of.name if of else "", 1)
        if seen is not None:
            assert not aggregate.agrees(aggregate.lift(seen), aggregate.zero), aggregate
