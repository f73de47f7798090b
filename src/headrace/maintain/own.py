"""Runs functions of a workspace over Arrow arrays, for Spark and for DuckDB."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import lru_cache, partial
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from headrace.aggregate.own import OwnAggregate, call_code
from headrace.aggregate.packed import unchunked
from headrace.calls import call_limit_s, limit_calls
from headrace.define.expression.computed import duckdb_type
from headrace.define.model import View
from headrace.define.own import OwnFunction
from headrace.types import Type, arrow_type


def run_function(function: OwnFunction, *arrays: pa.Array) -> pa.Array:
    """A value for each event; raises HeadraceError, naming the function, where it fails or gives something else."""
    types = [arrow_type(of) for _, of in function.takes]
    arguments = [unchunked(array).cast(of) for array, of in zip(arrays, types, strict=True)]
    return call_code(f"function '{function.name}'", code_of(function), function.gives, "events", *arguments)


def as_spark_function(function: OwnFunction) -> Any:
    """The function for columns of Spark."""
    return for_spark(partial(run_function, function), function.gives)


def for_spark(run: Callable[..., pa.Array], gives: Type) -> Any:
    """A function over Arrow arrays for columns of Spark."""
    from pyspark.sql.pandas.functions import arrow_udf  # Spark is not loaded where DuckDB alone computes

    limit_s = call_limit_s()

    def of_arrays(*arrays: pa.Array) -> pa.Array:  # Spark reads its hints
        limit_calls(limit_s)
        return run(*arrays)

    return arrow_udf(of_arrays, str(gives))  # type: ignore[call-overload]


def give_lifts(spark: SparkSession, view: View) -> None:
    """Give Spark the functions that it calls for aggregates of the workspace."""
    for column in view.columns:
        aggregate = column.aggregate
        if isinstance(aggregate, OwnAggregate):
            for function in aggregate.lifts:
                spark.udf.register(function.name, for_spark(function.run, function.gives))


def give_function(connection: duckdb.DuckDBPyConnection, function: OwnFunction) -> None:
    """Give a connection of DuckDB the function."""
    types: list[Any] = [duckdb_type(of) for _, of in function.takes]
    gives = duckdb_type(function.gives)
    connection.create_function(
        function.full_name,
        runner(function, partial(run_function, function)),
        types,
        gives,
        type=ARROW,
        null_handling=SPECIAL,
    )


def runner(function: OwnFunction, call: Callable[..., pa.Array]) -> Callable[..., Any]:
    """What DuckDB calls: `call`, as a function with the parameters of this one."""

    def run(*arrays: pa.Array) -> pa.Array:
        return call(*arrays)

    # DuckDB counts the parameters of the function, and would read its annotations.
    parameters = [Parameter(name, Parameter.POSITIONAL_ONLY) for name, _ in function.takes]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


@lru_cache(maxsize=1024)
def code_of(function: OwnFunction) -> Callable[..., Any]:
    """The function itself."""
    code: Callable[..., Any] = pickle.loads(function.code)
    return code
