"""The fused lane computes what Spark does: an expression that DuckDB runs has Spark's value, or fails."""

from __future__ import annotations

import random
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.engine.duckdb_terms import OTHER_CASE
from headrace.engine.duckdb_views import duckdb_expression
from headrace.engine.spark_relations import with_computed
from headrace.engine.spark_views import for_spark
from headrace.engine.time_functions import register
from headrace.errors import DefinitionError
from headrace.language.check import parse_expression
from headrace.language.terms import Expression
from headrace.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, arrow_type, decimal

from .expressions import DERIVED, SAMPLES, chunks, computed_expression
from .hostile import EXPRESSIONS, hostile_rows

FAILS = object()


def checked(text: str) -> Expression | None:
    try:
        return computed_expression(text)
    except DefinitionError:
        return None


def test_duckdb_computes_what_spark_does_or_fails(spark: Any) -> None:
    types = {name: of for name, (of, _) in [*SAMPLES.items(), *DERIVED.items()]}
    frame = spark.createDataFrame(hostile_rows()).coalesce(1)
    frame = frame.selectExpr("*", *(f"CAST({sql} AS {of}) AS {name}" for name, (of, sql) in DERIVED.items())).cache()
    translations: dict[str, tuple[Expression, str]] = {}
    for text in EXPRESSIONS:
        expression = checked(text)
        try:
            if expression is not None:
                translations[text] = expression, duckdb_expression(expression, types)
        except DefinitionError:
            continue  # Spark computes it
    assert len(translations) > len(EXPRESSIONS) * 0.7
    spark_expressions, matches = for_spark([expression for expression, _ in translations.values()], types)
    texts = [f"unix_micros({e.sql})" if e.type == TIMESTAMP else e.sql for e in spark_expressions]
    matched = with_computed(frame, matches)
    theirs = [
        column
        for chunk in chunks(texts, 40)
        for column in zip(*matched.selectExpr(*(f"{t} AS c{i}" for i, t in enumerate(chunk))).collect(), strict=True)
    ]
    database = duckdb.connect(config={"threads": 1})
    register(database)
    database.execute("SET TimeZone = 'UTC'")
    events = frame.toArrow()
    different, failures = [], 0
    for (text, (expression, written)), expected in zip(translations.items(), theirs, strict=True):
        sql = f"epoch_us({written})" if expression.type == TIMESTAMP else written
        ours = _compute(database, sql, events)
        failures += ours.count(FAILS)
        for at, (a, b) in enumerate(zip(ours, expected, strict=True)):
            if a is FAILS or _same(a, b, expression):
                continue
            row = {name: events.column(name)[at].as_py() for name in SAMPLES if name in text}
            different.append(f"{text} of {row}: DuckDB {a!r}, Spark {b!r}")
            break
    assert not different, "\n".join(different)
    assert failures, "some rows cannot be computed exactly"


NUMBERS = {"n": INT, "b": BIGINT, "price": decimal(12, 2), "rate": decimal(5, 3)}
DIVISIONS = ["n / 1000.0", "b / 1000.0", "b / 3.0", "n / 7.5", "price / 3", "price / 1.5", "price / rate", "n / rate"]
DIVISIONS += [
    "b / rate",
    "rate / price",
    "rate / n",
    "price / n",
    "b / -0.3",
    "rate / rate",
    "b / 0.0",
    "n / 8.0 / 2.0",
]


def test_divisions_of_decimals_are_rounded_as_by_spark(spark: Any) -> None:
    chance = random.Random(5)

    def number(digits: int, scale: int = 0) -> Decimal | None:
        """Small ones, so that quotients are often halves of the last digit, and those at the edges of the type."""
        most = 10**digits - 1
        whole = chance.choice([0, 1, -1, most, -most, chance.randint(-999, 999), chance.randint(-most, most), None])
        return None if whole is None else Decimal(whole).scaleb(-scale)

    schema = pa.schema([(name, arrow_type(of)) for name, of in NUMBERS.items()])
    rows = [(number(9), number(18), number(12, 2), number(5, 3)) for _ in range(2000)]
    rows += [(Decimal(2**31 - 1), Decimal(2**63 - 1), None, None), (Decimal(-(2**31)), Decimal(-(2**63)), None, None)]
    events = pa.table(
        [pa.array(values, of) for values, of in zip(zip(*rows, strict=True), schema.types, strict=True)], schema
    )
    expressions = [parse_expression(text, NUMBERS) for text in DIVISIONS]
    theirs = spark.createDataFrame(events).coalesce(1).selectExpr(*(each.sql for each in expressions)).collect()
    with duckdb.connect(config={"threads": 1}) as database:
        translations = ", ".join(duckdb_expression(each, NUMBERS) for each in expressions)
        ours = database.from_arrow(events).query("events", f"SELECT {translations} FROM events").fetchall()
    for text, mine, expected in zip(DIVISIONS, zip(*ours, strict=True), zip(*theirs, strict=True), strict=True):
        assert mine == expected, text


def _same(a: Any, b: Any, expression: Expression) -> bool:
    if expression.type == DOUBLE and a is not None and b is not None:
        return a == b or (a != a and b != b)
    return bool(a == b)


def _compute(database: duckdb.DuckDBPyConnection, sql: str, events: pa.Table) -> list[Any]:
    """The value for each event, or FAILS."""
    try:
        return [row[0] for row in database.from_arrow(events).query("events", f"SELECT {sql} FROM events").fetchall()]
    except duckdb.Error:
        if len(events) == 1:
            return [FAILS]
    middle = len(events) // 2
    return _compute(database, sql, events[:middle]) + _compute(database, sql, events[middle:])


def test_both_cases_of_every_character(spark: Any, tmp_path: Path) -> None:
    """Alone, in a word and at its end: some letters depend on their place."""
    letters = [chr(code) for code in range(1, sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF]
    texts = pa.table(
        {"text": [*letters, *(f"a{letter}b" for letter in letters), *(f"A{letter}" for letter in letters)]}
    )
    pq.write_table(texts, tmp_path / "texts.parquet", row_group_size=len(texts))
    theirs = spark.read.parquet(str(tmp_path)).selectExpr("text", "lower(text) AS lower", "upper(text) AS upper")
    with duckdb.connect(config={"threads": 1}) as database:
        database.register("theirs", theirs.toArrow())
        for name in ("lower", "upper"):
            written = duckdb_expression(computed_expression(f"{name}(text)"), {"text": STRING})
            others = f"regexp_matches(text, '[{OTHER_CASE[name]}]')"
            different = database.execute(
                f"SELECT text FROM theirs WHERE NOT {others} AND {written} <> {name}"
            ).fetchall()
            ((failures,),) = database.execute(f"SELECT count(*) FROM theirs WHERE {others}").fetchall()
            assert different == []
            assert failures < 0.001 * len(texts)
            with pytest.raises(duckdb.Error, match="computed by Spark"):
                database.execute(f"SELECT {written} FROM theirs").fetchall()
