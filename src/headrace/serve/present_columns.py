"""`present` for many rows at once, column by column; beside `present`, which must give the same values."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cache
from itertools import repeat
from typing import Any, TypeAlias

from headrace.aggregate import Aggregate
from headrace.duckdb_connections import open_duckdb
from headrace.lazy import duckdb, pa, pc
from headrace.serve.presentation import START, window_columns
from headrace.serve.read_plan import ReadPlan
from headrace.serve.shaping import Computed, Shaping
from headrace.serve.windows import Windows
from headrace.store.partial_columns import COUNTED
from headrace.store.version import Version
from headrace.types import BOOLEAN, TIMESTAMP, Type, arrow_type

Arrays: TypeAlias = "Sequence[pa.Array]"
FEW = 500  # rows that Python computes in less time than DuckDB plans a query
PRESENTED = "_presented"  # the table that DuckDB computes expressions over


def column_types(version: Version, plan: ReadPlan) -> list[tuple[str, Type]]:
    """The columns of `present_columns` and their types. Sums of integers are DECIMAL(38,0), whatever their size."""
    view = version.view
    times = [(name, TIMESTAMP) for name, _ in window_columns(view)]
    aggregates = [(column.name, column.aggregate.type) for column in view.columns]
    return [*zip(plan.by, plan.types, strict=True), *times, *aggregates, ("settled", BOOLEAN)]


def present_columns(
    version: Version, plan: ReadPlan, piece: pa.RecordBatch, only: Container[int] | None = None
) -> pa.RecordBatch:
    """Columns of (window start, group keys, events, corrections, batch events, partials) with presented values.

    With `only`, aggregates at other places of a presented row are NULL.
    """
    keys_end = 1 + len(plan.by)
    start, end, settled = _sessions(version, piece) if plan.has_sessions else _times(version, plan, piece.column(0))
    bounds = [start if bound == START else end for _, bound in window_columns(version.view)]
    values = [*piece.columns[1:keys_end], *bounds]
    at = keys_end + len(COUNTED)
    for column in version.view.columns:
        width = len(column.aggregate.columns)
        if only is None or len(values) in only:
            values.append(_present(column.aggregate, piece.columns[at : at + width]))
        else:
            values.append(pa.nulls(len(piece)))
        at += width
    columns = column_types(version, plan)
    arrays = [array.cast(arrow_type(of)) for array, (_, of) in zip([*values, settled], columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in columns])


def shape_columns(shaping: Shaping, piece: pa.RecordBatch, connection: duckdb.DuckDBPyConnection) -> pa.RecordBatch:
    """The rows of `present_columns` that HAVING keeps, with outputs, and a column per item of ORDER BY.

    DuckDB computes expressions on this connection, whose TimeZone is UTC.
    """
    if shaping.having is not None:
        piece = piece.filter(_compute(shaping, [shaping.having], piece, connection)[0])
    outputs = [by for _, by in shaping.outputs or () if isinstance(by, Computed)]
    values = iter(_compute(shaping, [*outputs, *(item.by for item in shaping.order)], piece, connection))
    names, columns = piece.schema.names, piece.columns
    arrays = dict(zip(names, columns, strict=True))
    if shaping.outputs is not None:
        before, after = names[: shaping.first], names[shaping.first + shaping.columns :]
        outputs_by_name = {name: columns[by] if isinstance(by, int) else next(values) for name, by in shaping.outputs}
        arrays = {**{n: arrays[n] for n in before}, **outputs_by_name, **{n: arrays[n] for n in after}}
    arrays |= {order_column(at): next(values) for at in range(len(shaping.order))}
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def select_rows(shaping: Shaping, piece: pa.RecordBatch) -> list[int]:
    """The indexes of the rows of `present_columns` that HAVING keeps, in the order of ORDER BY."""
    computed = [*([shaping.having] if shaping.having else []), *(item.by for item in shaping.order)]
    columns = None
    if len(piece) > FEW and all(each.sql for each in computed):
        with _database().cursor() as connection:
            columns = _by_duckdb(shaping, computed, piece, connection)
    if columns is None:
        return shaping.select(_rows(piece, shaping.decisive))
    kept = list(range(len(piece)))
    if shaping.having is not None:
        kept = pc.indices_nonzero(pc.fill_null(columns.pop(0), False)).to_pylist()
    for item, column in reversed(list(zip(shaping.order, columns, strict=True))):
        values = column.to_pylist()
        kept = item.sort([(values[at], at) for at in kept])
    return kept


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """An empty one that all answers share: opening one takes longer than most answers."""
    return open_duckdb()


def take_rows(piece: pa.RecordBatch, places: Sequence[int]) -> list[tuple[Any, ...]]:
    """These rows as Python has them."""
    rows = piece.take(pa.array(places, pa.int64()))
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _compute(
    shaping: Shaping, computed: Sequence[Computed], piece: pa.RecordBatch, connection: duckdb.DuckDBPyConnection
) -> list[pa.Array]:
    """The values of expressions: by DuckDB, or one by one those that it has no SQL for, and all if it fails."""
    by_duckdb = [each for each in computed if each.sql] if len(piece) > FEW else []
    columns = dict(zip(by_duckdb, _by_duckdb(shaping, by_duckdb, piece, connection) or (), strict=False))
    rows = shaping.rows(_rows(piece, shaping.used)) if len(columns) < len(set(computed)) else []
    return [
        columns[each] if each in columns else pa.array(map(each.evaluate, rows), arrow_type(each.type))
        for each in computed
    ]


def _by_duckdb(
    shaping: Shaping, computed: Sequence[Computed], piece: pa.RecordBatch, connection: duckdb.DuckDBPyConnection
) -> list[pa.Array] | None:
    """The values of expressions; None where DuckDB's would differ from those in Python."""
    names = [name.lower() for name, _ in shaping.types]
    if not computed or len(set(names)) < len(names):
        return None
    merged = [pa.nulls(len(piece))] * shaping.missing
    presented = [*piece.columns[: len(names) - shaping.missing], *merged]
    try:
        # Sums may be larger than the types that expressions know them by.
        arrays = {
            name: array.cast(arrow_type(of))
            for place, (array, (name, of)) in enumerate(zip(presented, shaping.types, strict=True))
            if place in shaping.used
        }
        connection.register(PRESENTED, pa.table(arrays or {"_none": pa.nulls(len(piece))}))
        values = ", ".join(f"{each.sql} AS v{at}" for at, each in enumerate(computed))
        table = connection.sql(f"SELECT {values} FROM {PRESENTED}").to_arrow_table().combine_chunks()
        return [
            column.chunk(0).cast(arrow_type(each.type)) for each, column in zip(computed, table.columns, strict=True)
        ]
    except (duckdb.Error, pa.ArrowException):
        return None
    finally:
        connection.unregister(PRESENTED)


def _rows(piece: pa.RecordBatch, used: Container[int]) -> list[tuple[Any, ...]]:
    """The rows; what no expression uses is None."""
    columns = (c.to_pylist() if at in used else repeat(None, len(piece)) for at, c in enumerate(piece.columns))
    return list(zip(*columns, strict=True))


def order_column(at: int) -> str:
    """The name of the column with the values of an item of ORDER BY."""
    return f"_order_{at}"


def _times(version: Version, plan: ReadPlan, ids: pa.Array) -> Arrays:
    count = len(ids)
    if plan.windows is None:  # a window over all time has no end, so it is never settled
        never = pa.nulls(count, pa.timestamp("us", "UTC"))
        return never, never, pa.repeat(False, count)
    start_ms, end_ms = _bounds(plan.windows, ids)
    settled = pa.repeat(False, count) if version.settled_ms is None else pc.less_equal(end_ms, version.settled_ms)
    return _timestamps(start_ms), _timestamps(end_ms), settled


def _sessions(version: Version, piece: pa.RecordBatch) -> Arrays:
    """The same of sessions, whose bounds are the last columns."""
    first_us, until_us = (column.cast(pa.int64()) for column in piece.columns[-2:])
    settled = pa.repeat(False, len(piece))
    if version.settled_ms is not None:
        settled = pc.less_equal(until_us, version.settled_ms * 1000)
    start, end = (times.cast(pa.timestamp("us", "UTC")) for times in (first_us, until_us))
    return start, end, settled


def _bounds(windows: Windows, ids: pa.Array) -> tuple[pa.Array, pa.Array]:
    if not windows.cumulative and windows.calendar is None:
        return ids, pc.add(ids, windows.size_ms)
    encoded = pc.dictionary_encode(ids)
    bounds = [windows.bounds(id_ms) for id_ms in encoded.dictionary.to_pylist()]
    starts, ends = (pa.array([bound[at] for bound in bounds], pa.int64()) for at in (0, 1))
    return starts.take(encoded.indices), ends.take(encoded.indices)


def _timestamps(ms: pa.Array) -> pa.Array:
    return pc.multiply(ms.cast(pa.int64()), 1000).cast(pa.timestamp("us", "UTC"))


def _present(aggregate: Aggregate, partials: Arrays) -> pa.Array:
    values = aggregate.present_arrow(partials)
    if values is not None:
        return values
    rows = zip(*(partial.to_pylist() for partial in partials), strict=True)
    return pa.array((aggregate.present(row) for row in rows), arrow_type(aggregate.type))
