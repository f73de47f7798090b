"""Calls functions of a workspace over Arrow arrays, in DuckDB and in Spark: values, or the value or error of each row
by itself.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.aggregate.kernels import unchunked
from headrace.aggregate.udaf import UserAggregate, call_code
from headrace.call_limits import LateCallError, call_limit_s, limit_calls
from headrace.define.model import View
from headrace.duckdb_connections import add_function
from headrace.engine.duckdb_terms import duckdb_type
from headrace.errors import HeadraceError
from headrace.format import cut
from headrace.language.user_functions import OUTCOME, UserFunction
from headrace.lazy import duckdb, pa
from headrace.types import STRING, Type, arrow_type, struct

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_function(function: UserFunction, *arrays: pa.Array) -> pa.Array:
    """A value for each event; raises HeadraceError, naming the function, where it fails or gives something else."""
    types = [arrow_type(of) for _, of in function.takes]
    arguments = [unchunked(array).cast(of) for array, of in zip(arrays, types, strict=True)]
    return call_code(f"function '{function.name}'", code_of(function), function.gives, "events", *arguments)


def spark_function(function: UserFunction) -> Any:
    """The function for columns of Spark."""
    return spark_udf(partial(run_function, function), function.gives)


def spark_udf(run: Callable[..., pa.Array], gives: Type) -> Any:
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
        if isinstance(aggregate, UserAggregate):
            for function in aggregate.lifts:
                spark.udf.register(function.name, spark_udf(function.run, function.gives))


def give_function(connection: duckdb.DuckDBPyConnection, function: UserFunction) -> None:
    """Give a connection of DuckDB the function, and the one that gives an outcome for each row."""
    takes = [duckdb_type(of) for _, of in function.takes]
    value, outcomes = (runner(function, partial(run, function)) for run in (run_function, run_outcomes))
    add_function(connection, function.full_name, value, takes, duckdb_type(function.gives), of_null=True)
    name, gives = f"{OUTCOME}{function.full_name}", duckdb_type(outcome_type(function))
    add_function(connection, name, outcomes, takes, gives, of_null=True, side_effects=True)


def runner(function: UserFunction, call: Callable[..., pa.Array]) -> Callable[..., Any]:
    """What DuckDB calls: `call`, as a function with the parameters of this one."""

    def run(*arrays: pa.Array) -> pa.Array:
        return call(*arrays)

    # DuckDB counts the parameters of the function, and would read its annotations.
    parameters = [Parameter(name, Parameter.POSITIONAL_ONLY) for name, _ in function.takes]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


@lru_cache(maxsize=1024)
def code_of(function: UserFunction) -> Callable[..., Any]:
    """The function itself."""
    code: Callable[..., Any] = pickle.loads(function.code)
    return code


MOST_CHARACTERS = 80  # of a value in a message


def outcome_type(function: UserFunction) -> Type:
    """What a call gives for each row: an error, or a value."""
    return struct(("error", STRING), ("value", function.gives))


def run_outcomes(function: UserFunction, *arrays: pa.Array) -> pa.Array:
    """The outcome of a call for each row. Rows that fail are found by calling it for smaller and smaller parts."""
    parts = [unchunked(array) for array in arrays]
    count, errors = len(parts[0]), dict[int, str]()
    values = _values(function, parts, 0, errors)
    texts = pa.array(map(errors.get, range(count)), pa.string()) if errors else pa.nulls(count, pa.string())
    names = [pa.field("error", pa.string()), pa.field("value", arrow_type(function.gives))]
    return pa.StructArray.from_arrays([texts, values], fields=names)


def _values(function: UserFunction, arrays: Sequence[pa.Array], start: int, errors: dict[int, str]) -> pa.Array:
    count = len(arrays[0])
    if not count:
        return pa.nulls(0, arrow_type(function.gives))
    try:
        return run_function(function, *arrays)
    except LateCallError:
        raise  # smaller parts would take as long, each
    except HeadraceError as error:
        if count == 1:
            errors[start] = describe(function, error, [array[0].as_py() for array in arrays])
            return pa.nulls(1, arrow_type(function.gives))
    half = count // 2
    first = _values(function, [array.slice(0, half) for array in arrays], start, errors)
    second = _values(function, [array.slice(half) for array in arrays], start + half, errors)
    return pa.concat_arrays([first, second])


def describe(function: UserFunction, error: HeadraceError, values: Sequence[Any]) -> str:
    """The error of a call for one row: function, line and value."""
    arguments = ", ".join(f"{name} = {_short(value)}" for (name, _), value in zip(function.takes, values, strict=True))
    return f"{error} ({_place(function, error.__cause__)}{arguments})"


def _place(function: UserFunction, cause: BaseException | None) -> str:
    """The line of the user's file that the error came from."""
    code = getattr(code_of(function), "__code__", None)
    if code is None:
        return ""
    file = code.co_filename
    frames = traceback.extract_tb(cause.__traceback__) if cause is not None else []
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == file), code.co_firstlineno)
    return f"{Path(file).name}:{line}, for "


def _short(value: Any) -> str:
    return cut(repr(value), MOST_CHARACTERS)
