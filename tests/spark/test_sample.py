"""A sample keeps the same rows in Spark as in DuckDB, by position and by keys of every type."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from headrace.define.relation import SampleRows
from headrace.define.sampling import duckdb_condition, spark_condition
from headrace.language.terms import Expression
from headrace.types import BIGINT, BOOLEAN, DATE, INT, STRING, TIMESTAMP, Type

ROWS = 5_000
FIRST = datetime(1969, 12, 31, tzinfo=UTC)
TYPES: dict[str, Type] = {
    "text": STRING, "flag": BOOLEAN, "small": INT, "large": BIGINT, "day": DATE, "at": TIMESTAMP
}  # fmt: skip
POSITIONS = [i if i % 3 else (i << 33) + i for i in range(ROWS)]


def columns() -> dict[str, list[Any]]:
    texts = ["", "n", "1:a", "NULL", "\u0000", "ä", "\U0001f600", "日本語", "'\"\\"]
    return {
        "_position": POSITIONS,
        "text": [None if i % 11 == 0 else texts[i % 9] + str(i % 700) * (i % 2) for i in range(ROWS)],
        "flag": [None if i % 7 == 0 else i % 2 == 0 for i in range(ROWS)],
        "small": [None if i % 13 == 0 else i * 7919 % 2**31 - 2**30 for i in range(ROWS)],
        "large": [None if i % 13 == 0 else (i - 2500) * 3_689_348_814_741_910 for i in range(ROWS)],
        "day": [None if i % 5 == 0 else date(1900, 1, 1) + timedelta(days=i * 13) for i in range(ROWS)],
        "at": [None if i % 5 == 0 else FIRST + timedelta(microseconds=i * 98_765_431) for i in range(ROWS)],
    }


CASES = [(), *((name,) for name in TYPES), ("text", "day"), ("flag", "small", "at")]


@pytest.mark.parametrize("names", CASES, ids=lambda names: "-".join(names) or "position")
def test_both_engines_keep_the_same_rows(spark: Any, names: tuple[str, ...]) -> None:
    types = {"_position": pa.int64(), "text": pa.string(), "flag": pa.bool_(), "small": pa.int32(),
             "large": pa.int64(), "day": pa.date32(), "at": pa.timestamp("us", "UTC")}  # fmt: skip
    events = pa.table({name: pa.array(values, types[name]) for name, values in columns().items()})
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("events", events)
    frame = spark.createDataFrame(events)
    for seed, percent in ((0, 10.0), (7, 50.0), (123_456_789, 0.7)):
        sample = SampleRows(percent, seed, tuple(Expression.stored(name, TYPES[name]) for name in names))
        in_duckdb = duckdb_condition(sample, "clicks", [f'"{name}"' for name in names])
        in_spark = spark_condition(sample, "clicks", [f"`{name}`" for name in names])
        ours = connection.sql(f"SELECT _position FROM events WHERE {in_duckdb} ORDER BY 1").fetchall()
        theirs = frame.where(in_spark).select("_position").orderBy("_position").collect()
        assert [row[0] for row in ours] == [row[0] for row in theirs]
        assert 0 < len(ours) < ROWS or names == ("flag",)
    connection.close()
