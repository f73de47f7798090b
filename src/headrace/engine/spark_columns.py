"""Columns that workers compute in a Spark job: functions of the workspace, and patterns.

Patterns are run by RE2, since Java's recurse and a long text would overflow its stack.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.functions import arrow_udf

from headrace.engine.spark_views import TEXT, Computed, PatternColumn
from headrace.engine.time_functions import register
from headrace.engine.udf_calls import as_spark_function


def with_computed(events: DataFrame, computed: Sequence[Computed]) -> DataFrame:
    """The events, each with what patterns and functions of the workspace make of it."""
    for column in computed:
        if isinstance(column, PatternColumn):
            values = _matcher(column)(F.expr(column.text))
        else:
            values = as_spark_function(column.function)(*map(F.expr, column.arguments))
        events = events.withColumn(column.name, values)
    return events


def _matcher(match: PatternColumn) -> Any:
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
    connection = duckdb.connect(config={"threads": 1, "autoload_known_extensions": False})
    connection.execute("SET TimeZone = 'UTC'")
    register(connection)
    atexit.register(connection.close)  # DuckDB complains of functions that are there at the end
    return connection
