"""Spark's face of each aggregate equals its Python face, over all types, NULLs and filters."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from headrace.aggregate import REGISTRY, Aggregate
from headrace.types import BOOLEAN, Expression, Type

from ..laws.cases import TYPES, column, values

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
    def collect(drawn: tuple[Any, ...]) -> None:
        rows.append(drawn)

    collect()
    chance = random.Random(7)
    return [(chance.randrange(GROUPS), *row) for row in rows * 3]


def cases() -> list[tuple[str, Aggregate, int | None]]:
    """(name, aggregate, index of its argument in a row), each with and without a filter."""
    found: list[tuple[str, Aggregate, int | None]] = []
    for cls in REGISTRY.values():
        arguments: list[tuple[Type | None, int | None]] = [(None, None), *((of, i + 2) for i, of in enumerate(TYPES))]
        for of, index in arguments:
            expression = Expression(column(of), of) if of else None
            if cls.refuse(expression) is None:
                found.append((f"c{len(found)}", cls(expression), index))
                found.append((f"c{len(found)}", cls(expression, Expression("keep", BOOLEAN)), index))
    return found


def test_both_faces_agree(spark: Any) -> None:
    rows = generated_rows()
    ddl = "grp INT, keep BOOLEAN, " + ", ".join(f"{column(of)} {of}" for of in TYPES)
    events = spark.createDataFrame(rows, ddl).repartition(3)
    every = cases()
    columns = [
        F.expr(sql).alias(f"{name}_{i}")
        for name, aggregate, _ in every
        for i, sql in enumerate(aggregate.spark_columns())
    ]
    for said in events.groupBy("grp").agg(*columns).collect():
        own = [row for row in rows if row[0] == said.grp]
        for name, aggregate, index in every:
            ours = tuple(_plain(said[f"{name}_{i}"]) for i in range(len(aggregate.columns)))
            kept = [row for row in own if row[1] or aggregate.where is None]
            values_ = [row[index] if index is not None else None for row in kept]
            theirs = reduce(aggregate.merge, map(aggregate.lift, values_), aggregate.zero)
            assert aggregate.agrees(ours, theirs), (aggregate, aggregate.present(ours), aggregate.present(theirs))


def test_spark_types_are_those_that_the_store_expects(spark: Any) -> None:
    ddl = "keep BOOLEAN, " + ", ".join(f"{column(of)} {of}" for of in TYPES)
    empty = spark.createDataFrame([], ddl)
    for _, aggregate, _ in cases():
        for part, sql in zip(aggregate.columns, aggregate.spark_columns(), strict=True):
            found = empty.agg(F.expr(sql).alias("x")).schema["x"].dataType.simpleString().upper()
            assert found == str(part.type), (aggregate, part)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):  # Spark gives UTC without saying so
        return value.replace(tzinfo=UTC)
    return bytes(value) if isinstance(value, bytearray) else value
