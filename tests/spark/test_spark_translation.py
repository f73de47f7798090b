"""Spark's columns of each aggregate equals its Python evaluation, over all types, NULLs and filters."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from headrace.aggregate import Aggregate
from headrace.aggregate.kernels import second_spark_hash, spark_hash
from headrace.types import decimal
from tests.aggregates import column

from ..laws.cases import TYPES
from .aggregate_rows import cases, generated_rows

DDL = ", ".join(["keep BOOLEAN", *(f"{column(of)} {of}" for of in TYPES), "time BIGINT", "position BIGINT"])


def test_both_translations_agree(spark: Any) -> None:
    _check(spark, cases(), batch=False)


def test_both_translations_agree_about_what_only_the_batch_layer_fills(spark: Any) -> None:
    every = {name: each for name, each in cases().items() if any(part.batch_only for part in each.columns)}
    assert every
    for aggregate, ours, theirs in _check(spark, every, batch=True):
        assert aggregate.is_exact(ours)
        for part, value, other in zip(aggregate.columns, ours, theirs, strict=True):
            # The engines may write one and the same set in different forms.
            assert value == other or part.merge.merge([value, other]) == part.merge.merge([other, other]), aggregate


def _check(spark: Any, every: dict[str, Aggregate], *, batch: bool) -> list[tuple[Aggregate, Any, Any]]:
    """Each aggregate, with the partials of Spark and of Python, which agree, of each group."""
    rows = [(*row, row[0] % 3, position) for position, row in enumerate(generated_rows())]
    names = ["grp", "keep", *map(column, TYPES), "time", "position"]
    events = spark.createDataFrame(rows, f"grp INT, {DDL}").repartition(3)
    columns = [
        F.expr(sql).alias(f"{name}_{i}")
        for name, aggregate in every.items()
        for i, sql in enumerate((aggregate.batch_sql if batch else aggregate.spark_sql)("time", "position"))
    ]
    found = []
    for group in events.groupBy("grp").agg(*columns).collect():
        own = [dict(zip(names, row, strict=True)) for row in rows if row[0] == group.grp]
        for name, aggregate in every.items():
            ours = tuple(_plain(group[f"{name}_{i}"]) for i in range(len(aggregate.columns)))
            inputs = [argument.sql for argument in aggregate.arguments] + ["time", "position"] * aggregate.ordered
            passing = [row for row in own if row["keep"] or aggregate.where is None]
            partials = (aggregate.lift(*(row[column] for column in inputs)) for row in passing)
            theirs = reduce(aggregate.merge, partials, aggregate.zero)
            assert aggregate.agrees(ours, theirs), (aggregate, aggregate.present(ours), aggregate.present(theirs))
            found.append((aggregate, ours, theirs))
    return found


def test_hashes_of_wide_decimals_are_those_of_spark(spark: Any) -> None:
    of = decimal(38, 6)
    texts = ("0", "-0.000128", "0.000128", "-0.032768", "-0.000001", "12345678901234567890123456789012.123456")
    for text in (*texts, "-12345678901234567890123456789012.123457"):
        (row,) = spark.sql(f"SELECT xxhash64(x), xxhash64(1L, x) FROM (SELECT CAST('{text}' AS {of}) AS x)").collect()
        value = Decimal(text)
        assert (row[0], row[1]) == (spark_hash(value, of), second_spark_hash(value, of)), text


def test_spark_types_are_those_that_the_store_expects(spark: Any) -> None:
    empty = spark.createDataFrame([], DDL)
    for aggregate in cases().values():
        translations = [aggregate.spark_sql("time", "position"), aggregate.batch_sql("time", "position")]
        for part, sql in {
            (part, sql) for columns in translations for part, sql in zip(aggregate.columns, columns, strict=True)
        }:
            spark_type = empty.agg(F.expr(sql).alias("x")).schema["x"].dataType.simpleString().upper()
            assert spark_type == str(part.type).upper().replace(": ", ":").replace(", ", ","), (aggregate, part)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):  # Spark returns UTC without a time zone
        return value.replace(tzinfo=UTC)
    if isinstance(value, Row):
        return {name: _plain(part) for name, part in value.asDict().items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return bytes(value) if isinstance(value, bytearray) else value
