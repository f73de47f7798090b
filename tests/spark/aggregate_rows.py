"""Rows and aggregates over them, to compare the faces of an aggregate."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.aggregate import INTERNAL, REGISTRY, Aggregate
from headrace.language.terms import Expression
from headrace.types import BOOLEAN
from tests.aggregates import TEST_ONLY, every_aggregate

from ..laws.cases import TYPES, values

GROUPS = 40


def generated_rows() -> list[tuple[Any, ...]]:
    """Rows (group, keep, a value of each type), from the strategies that the laws use."""
    rows: list[tuple[Any, ...]] = []
    row = st.tuples(st.booleans(), *(values(of) for of in TYPES))

    @settings(
        max_examples=300,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
    )
    @given(row)
    def collect(example: tuple[Any, ...]) -> None:
        rows.append(example)

    collect()
    chance = random.Random(7)
    return [(chance.randrange(GROUPS), *row) for row in rows * 3]


def cases() -> dict[str, Aggregate]:
    """Each aggregate by a name, with and without a filter."""
    plain = every_aggregate((*REGISTRY.values(), *INTERNAL.values(), *TEST_ONLY), TYPES)
    filtered = [replace(aggregate, where=Expression.field("keep", BOOLEAN)) for aggregate in plain]
    return {f"c{number}": aggregate for number, aggregate in enumerate([*plain, *filtered])}
