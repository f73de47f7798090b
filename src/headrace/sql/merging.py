"""Merges the sketches of many rows of a view: the functions that `define/query_rules.py` names, for DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from headrace.aggregate import REGISTRY, Aggregate, Partial
from headrace.define.fingerprint import aggregate_id
from headrace.define.model import View
from headrace.define.outputs import outputs_of
from headrace.define.query_rules import COUNTS, PERCENTILE, SKETCH, SUFFIX
from headrace.types import DOUBLE, Expression


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Give the connection these functions, which take lists of sketches."""
    import datasketches  # noqa: F401 - only for such queries; and before files can no longer be opened

    # DuckDB would read annotations, some of which only type checkers can resolve: so it gets functions without any.
    for name, aggregate in COUNTS.items():
        count = _counting(aggregate)
        of: Any = f"{_type(aggregate)}[]"
        connection.create_function(name, _plain(count), [of], "BIGINT", type=ARROW, null_handling=SPECIAL)
    percentile: Any = lambda lists, shares: _percentile(lists, shares)  # noqa: E731 - as above
    takes: list[Any] = ["BLOB[]", "DOUBLE"]
    connection.create_function(PERCENTILE, percentile, takes, "DOUBLE", type=ARROW, null_handling=SPECIAL)


def _plain(run: Callable[[pa.Array], pa.Array]) -> Any:
    return lambda lists: run(lists)


def sketches_of(view: View, partials: dict[Aggregate, list[pa.Array]]) -> dict[str, pa.Array]:
    """The additional columns of a view: the partials of each output that is presented from a sketch."""
    by_id = {aggregate_id(aggregate): (aggregate, columns) for aggregate, columns in partials.items()}
    columns = {}
    for output in outputs_of(view):
        if output.expression.sql in by_id:
            aggregate, parts = by_id[output.expression.sql]
            if f"{aggregate.name}{SUFFIX}" in COUNTS:
                columns[f"{output.name}{SKETCH}"] = pa.StructArray.from_arrays(parts, _names(aggregate))
            elif f"{aggregate.name}{SUFFIX}" == PERCENTILE:
                columns[f"{output.name}{SKETCH}"] = parts[0]
    return columns


def sketch_types(view: View) -> dict[str, str]:
    """The additional columns of a view, with their types in DuckDB."""
    by_id = {aggregate_id(column.aggregate): column.aggregate for column in view.columns}
    columns = {}
    for output in outputs_of(view):
        aggregate = by_id.get(output.expression.sql)
        if aggregate is not None and f"{aggregate.name}{SUFFIX}" in COUNTS:
            columns[f"{output.name}{SKETCH}"] = _type(aggregate)
        elif aggregate is not None and f"{aggregate.name}{SUFFIX}" == PERCENTILE:
            columns[f"{output.name}{SKETCH}"] = "BLOB"
    return columns


def _type(aggregate: Aggregate) -> str:
    return f"STRUCT({', '.join(f'{part} BLOB' for part in _names(aggregate))})"


def _names(aggregate: Aggregate) -> list[str]:
    """Names of the columns of its partials, as parts of one column."""
    return [f"part{at}" for at, _ in enumerate(aggregate.columns)]


def _lists(array: pa.Array | pa.ChunkedArray) -> Iterator[list[Any]]:
    """The sketches of each list, without NULL."""
    for sketches in array.to_pylist():
        yield [sketch for sketch in sketches or () if sketch is not None]


def _counting(aggregate: Aggregate) -> Callable[[pa.Array], pa.Array]:
    merges = [(name, column.merge) for name, column in zip(_names(aggregate), aggregate.columns, strict=True)]

    def merged(partials: list[dict[str, bytes | None]]) -> Partial:
        parts = [(merge, [each[name] for each in partials if each[name] is not None]) for name, merge in merges]
        return tuple(merge.merge(values) if values else None for merge, values in parts)

    def count(lists: pa.Array) -> pa.Array:
        return pa.array((aggregate.present(merged(partials)) for partials in _lists(lists)), pa.int64())

    return count


def _percentile(lists: pa.Array, shares: pa.Array) -> pa.Array:
    values: list[float | None] = []
    for sketches, share in zip(_lists(lists), shares.to_pylist(), strict=True):
        if not sketches or share is None or not 0 <= share <= 1:
            values.append(None)
            continue
        aggregate = REGISTRY["approx_percentile"]((Expression("x", DOUBLE),), None, (share,))
        values.append(aggregate.present((aggregate.columns[0].merge.merge(sketches),)))
    return pa.array(values, pa.float64())
