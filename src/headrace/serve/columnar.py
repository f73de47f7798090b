"""`present` for many rows at once, column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregate import Aggregate
from headrace.aggregate.exact import Avg, Count, Max, Min, Sum
from headrace.parse.schema import arrow_type
from headrace.serve.plan import ReadPlan
from headrace.serve.present import START, window_columns
from headrace.store.base import COUNTED, Version
from headrace.types import BOOLEAN, DOUBLE, TIMESTAMP, Type

EXACT_DOUBLE = 2**53  # whole numbers up to here are doubles without rounding

Arrays = Sequence[pa.Array]


def shown_columns(version: Version, plan: ReadPlan) -> list[tuple[str, Type]]:
    """The columns of `present_columns` and their types. Sums of integers are DECIMAL(38,0), whatever their size."""
    view = version.view
    times = [(name, TIMESTAMP) for name, _ in window_columns(view)]
    aggregates = [(column.name, column.aggregate.type) for column in view.columns]
    return [*zip(plan.by, plan.types, strict=True), *times, *aggregates, ("settled", BOOLEAN)]


def present_columns(version: Version, plan: ReadPlan, piece: pa.RecordBatch) -> pa.RecordBatch:
    """Columns of (window start, kept keys, events, corrections, batch events, partials) as a reader sees them."""
    keys_end = 1 + len(plan.by)
    start, end, settled = _times(version, plan, piece.column(0))
    bounds = [start if bound == START else end for _, bound in window_columns(version.view)]
    shown = [*piece.columns[1:keys_end], *bounds]
    at = keys_end + len(COUNTED)
    for column in version.view.columns:
        width = len(column.aggregate.columns)
        shown.append(_present(column.aggregate, piece.columns[at : at + width]))
        at += width
    columns = shown_columns(version, plan)
    arrays = [array.cast(arrow_type(of)) for array, (_, of) in zip([*shown, settled], columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in columns])


def _times(version: Version, plan: ReadPlan, start_ms: pa.Array) -> Arrays:
    count = len(start_ms)
    if plan.windows is None:  # all time never ends, so it is never settled
        never = pa.nulls(count, pa.timestamp("us", "UTC"))
        return never, never, pa.repeat(False, count)
    end_ms = pc.add(start_ms, plan.windows.size_ms)
    if version.newest_us is None:
        settled = pa.repeat(False, count)
    else:
        settled = pc.less_equal(end_ms, version.newest_us // 1000 - version.patience_ms)
    return _timestamps(start_ms), _timestamps(end_ms), settled


def _timestamps(ms: pa.Array) -> pa.Array:
    return pc.multiply(ms.cast(pa.int64()), 1000).cast(pa.timestamp("us", "UTC"))


def _present(aggregate: Aggregate, partials: Arrays) -> pa.Array:
    quick = _QUICK.get(type(aggregate))
    shown = quick(aggregate, partials) if quick else None
    return _one_by_one(aggregate, partials) if shown is None else shown


def _one_by_one(aggregate: Aggregate, partials: Arrays) -> pa.Array:
    rows = zip(*(partial.to_pylist() for partial in partials), strict=True)
    return pa.array((aggregate.present(row) for row in rows), arrow_type(aggregate.type))


def _count(aggregate: Aggregate, partials: Arrays) -> pa.Array:
    return pc.fill_null(partials[0], 0)


def _as_it_is(aggregate: Aggregate, partials: Arrays) -> pa.Array:
    return partials[0]


def _mean(aggregate: Aggregate, partials: Arrays) -> pa.Array | None:
    """One division of two exact doubles; None where the sum is not one, or the mean is a DECIMAL."""
    total, count = partials[0], partials[1]
    if aggregate.type != DOUBLE:
        return None
    if not pa.types.is_floating(total.type):
        largest = pc.max(pc.abs(total)).as_py()
        if largest is not None and largest > EXACT_DOUBLE:
            return None
        total = total.cast(pa.float64())
    some = pc.if_else(pc.equal(count, 0), None, count)
    return pc.divide(total, some.cast(pa.float64()))


_QUICK: dict[type[Aggregate], Callable[[Any, Arrays], pa.Array | None]] = {
    Count: _count,
    Sum: _as_it_is,
    Min: _as_it_is,
    Max: _as_it_is,
    Avg: _mean,
}
