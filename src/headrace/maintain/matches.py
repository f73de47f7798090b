"""Patterns in a Spark job: workers run them by RE2, since Java's recurse and a long text would overflow its stack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.functions import arrow_udf

from headrace.define.expression.spark_face import TEXT, Match


def with_matches(events: DataFrame, matches: Sequence[Match]) -> DataFrame:
    """The events, each with what patterns make of its texts."""
    for match in matches:
        events = events.withColumn(match.name, _matcher(match)(F.expr(match.text)))
    return events


def _matcher(match: Match) -> Any:
    def matched(texts: pa.Array) -> pa.Array:
        return run(match.duckdb, texts)

    # Spark's stub demands a function type, and Spark warns of one: the hints above say it.
    return arrow_udf(matched, str(match.type))  # type: ignore[call-overload]


def run(sql: str, texts: pa.Array) -> pa.Array:
    """The value of DuckDB's SQL for each text."""
    connection = _connection()
    connection.register("texts", pa.table({TEXT: texts}))
    values: pa.ChunkedArray = connection.sql(f"SELECT {sql} AS value FROM texts").to_arrow_table().column("value")
    connection.unregister("texts")
    return values.combine_chunks()


@lru_cache(maxsize=1)
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1, "autoload_known_extensions": False})
