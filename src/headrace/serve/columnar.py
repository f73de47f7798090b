"""`present` for many rows at once, column by column; beside `present`, which must give the same values."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregate import Aggregate
from headrace.serve.plan import ReadPlan
from headrace.serve.present import START, window_columns
from headrace.serve.shape import Shaping
from headrace.serve.tiling import Windows
from headrace.store.columns import COUNTED
from headrace.store.version import Version
from headrace.types import BOOLEAN, TIMESTAMP, Type, arrow_type

Arrays = Sequence[pa.Array]


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
    start, end, settled = _times(version, plan, piece.column(0))
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


def shape_columns(shaping: Shaping, piece: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of `present_columns` that HAVING keeps, with outputs, and a column per item of ORDER BY."""
    rows = shaping.rows(_rows(piece, shaping.used))
    if shaping.having is not None:
        kept = [at for at, row in enumerate(rows) if shaping.having(row)]
        piece, rows = piece.take(pa.array(kept, pa.int64())), [rows[at] for at in kept]
    arrays = {name: piece.column(at) for at, name in enumerate(piece.schema.names)}
    if shaping.outputs is not None:
        places = list(arrays.values())
        names = piece.schema.names
        outputs = {
            name: places[by] if isinstance(by, int) else pa.array(map(by, rows), arrow_type(of))
            for name, of, by in shaping.outputs
        }
        before, after = names[: shaping.first], names[shaping.first + shaping.columns :]
        arrays = {**{n: arrays[n] for n in before}, **outputs, **{n: arrays[n] for n in after}}
    for at, item in enumerate(shaping.order):
        arrays[order_column(at)] = pa.array(map(item.face, rows), arrow_type(item.type))
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def select_rows(shaping: Shaping, piece: pa.RecordBatch) -> list[int]:
    """The indexes of the rows of `present_columns` that HAVING keeps, in the order of ORDER BY."""
    return shaping.select(_rows(piece, shaping.decisive))


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
    if version.settled_us is None:
        settled = pa.repeat(False, count)
    else:
        settled = pc.less_equal(end_ms, version.settled_us // 1000)
    return _timestamps(start_ms), _timestamps(end_ms), settled


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
