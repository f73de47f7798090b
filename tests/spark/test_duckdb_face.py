"""The fused lane computes what Spark does: an expression that DuckDB runs has Spark's value, or fails."""

# ruff: noqa: E501 - one case per line

from __future__ import annotations

import random
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.define.expression.computed import OTHER_CASE
from headrace.define.expression.duckdb_face import face_of
from headrace.define.expression.spark_face import for_spark
from headrace.errors import DefinitionError
from headrace.maintain.matches import with_matches
from headrace.types import DOUBLE, STRING, TIMESTAMP, Expression, arrow_type

from .expressions import COMPUTED, DERIVED, SAMPLES, chunks, computed_expression

ROWS = 300
FAILS = object()
MORE: dict[str, list[Any]] = {
    "text": ["straße", "İstanbul", "ὈΔΥΣΣΕΎΣ", "ǅ", "🦆 duck", "e\u0301", "a\u200db", "\u00a0x\u00a0", "日本語", "x" * 300, "'", '"', "\\",
             "+7", "1e400", "0x1F", "1.5e3", "-0", ".5", "5.", "1,000", "NaN", "Infinity", "TRUE", "t", "\t12\n", "%l_o%", "2024", "2024-02",
             "0001-01-01", "9999-12-31", "12024-01-01", "23:59", "2147483648", "9223372036854775808", "0.05", "-0.05", "0.15"],
    "n": [-2147483648, 2147483646, 1000, -8],
    "big": [-(2**63), 2**63 - 1, 2**53 + 1, -(2**31) - 1, 2**31, 253402300799000, 253402300800000, -62135596800000],
    "x": [float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1.7976931348623157e308, 0.1, 0.30000000000000004, 2.0**53 + 2, 9.2e18, 1e19,
          -2147483648.9, 2147483647.5, 0.5, 1.5, -1.5, 1.005],
    "price": ["-99999999.99", "0.01", "-0.01", "0.05", "0.50", "1.50"],
    "yes": [],
    "day": ["0001-01-01", "9999-12-31", "1582-10-10", "2000-02-29", "2024-12-30"],
    "time": ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1582-10-10 12:00:00", "2024-12-30 01:02:03.000001"],
}  # fmt: skip
EXPRESSIONS = [
    *COMPUTED,
    "n + n", "n * n", "n - 2147483647", "big + 1", "big * 2", "big - n", "-big", "abs(n)", "abs(big)", "n DIV -1", "big DIV n", "big % n",
    "CAST(big AS INT)", "CAST(x AS INT)", "CAST(x AS BIGINT)", "CAST(price AS BIGINT)", "CAST(big AS DOUBLE)", "CAST(price AS DOUBLE)",
    "x + 0.1", "x * x", "x / 3", "x % 3", "x = x", "x > 1", "x <> 0.1", "x < price", "x IN (0.1, 1.5)", "x BETWEEN 0 AND 2",
    "price * price", "price + x", "price - 100000000", "price % 3", "price > 0.5", "price = 1.5", "greatest(x, 1)", "least(x, n)",
    "coalesce(x, n)", "coalesce(price, n)", "CASE WHEN x > 0 THEN n ELSE big END", "n > x", "big = x", "big > price", "ceil(x * 10)",
    "floor(x)", "length(upper(text))", "lower(text) = 'abc'", "text LIKE '%\\\\%'", "text < 'b'", "greatest(text, 'm')", "concat(text, n)",
    "substring(text, 1, 1)", "left(text, 1)", "right(text, 1)", "instr(text, 'a')", "reverse(text)", "md5(concat(text, text))",
    "CAST(day AS STRING)", "CAST(time AS STRING)", "CAST(price AS STRING)", "CAST(yes AS STRING)", "time + INTERVAL 1 DAY",
    "date_trunc('week', time)", "unix_seconds(time) % 60", "year(time) * 100 + month(time)", "hour(time) >= 22", "time < '2024-01-01'",
]  # fmt: skip


def hostile_rows() -> pa.Table:
    chance = random.Random(5)
    columns = {}
    for name, (of, values) in SAMPLES.items():
        every = [value for value in [*values, *MORE[name]] if value is not None] + [None]
        drawn = [every[at] if at < len(every) else chance.choice(every) for at in range(ROWS)]
        chance.shuffle(drawn)
        columns[name] = pa.array([_typed(value, of.name) for value in drawn], arrow_type(of))
    return pa.table(columns)


def _typed(value: Any, name: str) -> Any:
    if value is None:
        return None
    match name:
        case "DECIMAL":
            return Decimal(value)
        case "DATE":
            return date.fromisoformat(value)
        case "TIMESTAMP":
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value


def checked(text: str) -> Expression | None:
    try:
        return computed_expression(text)
    except DefinitionError:
        return None


def test_duckdb_computes_what_spark_does_or_fails(spark: Any) -> None:
    types = {name: of for name, (of, _) in [*SAMPLES.items(), *DERIVED.items()]}
    frame = spark.createDataFrame(hostile_rows()).coalesce(1)
    frame = frame.selectExpr("*", *(f"CAST({sql} AS {of}) AS {name}" for name, (of, sql) in DERIVED.items())).cache()
    faces: dict[str, tuple[Expression, str]] = {}
    for text in EXPRESSIONS:
        expression = checked(text)
        try:
            if expression is not None:
                faces[text] = expression, face_of(expression, types)
        except DefinitionError:
            continue  # Spark computes it
    assert len(faces) > len(EXPRESSIONS) * 0.7
    spark_expressions, matches = for_spark([expression for expression, _ in faces.values()], types)
    texts = [f"unix_micros({e.sql})" if e.type == TIMESTAMP else e.sql for e in spark_expressions]
    matched = with_matches(frame, matches)
    theirs = [
        column
        for chunk in chunks(texts, 40)
        for column in zip(*matched.selectExpr(*(f"{t} AS c{i}" for i, t in enumerate(chunk))).collect(), strict=True)
    ]
    database = duckdb.connect(config={"threads": 1})
    database.execute("SET TimeZone = 'UTC'")
    events = frame.toArrow()
    different, failures = [], 0
    for (text, (expression, face)), expected in zip(faces.items(), theirs, strict=True):
        sql = f"epoch_us({face})" if expression.type == TIMESTAMP else face
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
            face = face_of(computed_expression(f"{name}(text)"), {"text": STRING})
            others = f"regexp_matches(text, '[{OTHER_CASE[name]}]')"
            different = database.execute(f"SELECT text FROM theirs WHERE NOT {others} AND {face} <> {name}").fetchall()
            ((failures,),) = database.execute(f"SELECT count(*) FROM theirs WHERE {others}").fetchall()
            assert different == []
            assert failures < 0.001 * len(texts)
            with pytest.raises(duckdb.Error, match="computed by Spark"):
                database.execute(f"SELECT {face} FROM theirs").fetchall()
