"""Runs functions of a workspace over Arrow arrays, for Spark and for DuckDB."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import lru_cache
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from headrace.aggregate import Function
from headrace.aggregate.own import OwnAggregate
from headrace.define.expression.computed import duckdb_type
from headrace.define.model import View
from headrace.define.own import OwnFunction
from headrace.errors import HeadraceError
from headrace.types import arrow_type


def run_function(function: OwnFunction, *arrays: pa.Array) -> pa.Array:
    """A value for each event; raises HeadraceError, naming the function, where it fails or gives something else."""
    types = [arrow_type(of) for _, of in function.takes]
    arguments = [_whole(array).cast(of) for array, of in zip(arrays, types, strict=True)]
    try:
        values = _code(function)(*arguments)
    except Exception as error:
        raise HeadraceError(f"function '{function.name}' failed: {type(error).__name__}: {error}") from error
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        raise HeadraceError(f"function '{function.name}' returned {type(values).__name__}", expected="an Arrow array")
    if len(values) != len(arguments[0]):
        raise HeadraceError(
            f"function '{function.name}' returned {len(values)} values for {len(arguments[0])} events",
            expected="one value for each event",
        )
    try:
        return _whole(values).cast(arrow_type(function.gives))
    except pa.ArrowInvalid as error:
        raise HeadraceError(
            f"function '{function.name}' returned {values.type}: {error}", expected=str(function.gives)
        ) from error
    except pa.ArrowNotImplementedError:
        raise HeadraceError(
            f"function '{function.name}' returned {values.type}", expected=str(function.gives)
        ) from None


def as_spark_function(function: OwnFunction) -> Any:
    """The function for columns of Spark."""
    from pyspark.sql.pandas.functions import arrow_udf  # Spark is not loaded where DuckDB alone computes

    def run(*arrays: pa.Array) -> pa.Array:
        return run_function(function, *arrays)

    return arrow_udf(run, str(function.gives))  # type: ignore[call-overload]


def give_lifts(spark: SparkSession, view: View) -> None:
    """Give Spark the functions that it calls for aggregates of the workspace."""
    for column in view.columns:
        aggregate = column.aggregate
        if isinstance(aggregate, OwnAggregate):
            for function in aggregate.lifts:
                spark.udf.register(function.name, _as_lift(function))


def _as_lift(function: Function) -> Any:
    from pyspark.sql.pandas.functions import arrow_udf  # Spark is not loaded where DuckDB alone computes

    def run(lists: pa.Array) -> pa.Array:
        return function.run(lists)

    return arrow_udf(run, str(function.gives))  # type: ignore[call-overload]


def give_function(connection: duckdb.DuckDBPyConnection, function: OwnFunction) -> None:
    """Give a connection of DuckDB the function."""
    types: list[Any] = [duckdb_type(of) for _, of in function.takes]
    gives = duckdb_type(function.gives)
    connection.create_function(function.full_name, _runner(function), types, gives, type=ARROW, null_handling=SPECIAL)


def _runner(function: OwnFunction) -> Callable[..., Any]:
    def run(*arrays: pa.Array) -> pa.Array:
        return run_function(function, *arrays)

    # DuckDB counts the parameters of the function, and would read its annotations.
    parameters = [Parameter(name, Parameter.POSITIONAL_ONLY) for name, _ in function.takes]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


@lru_cache(maxsize=1024)
def _code(function: OwnFunction) -> Callable[..., Any]:
    code: Callable[..., Any] = pickle.loads(function.code)
    return code


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
