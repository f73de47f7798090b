"""Replaces dates and times outside of the years 1 to 9999 by NULL, since Python cannot represent them."""

from __future__ import annotations

from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

YEARS_S = (-62_135_596_800, 253_402_300_799)  # the first and the last second, since 1970
DAY_S = 86_400
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000}  # nanoseconds in 64 bits stay within


def within_years(table: pa.Table) -> pa.Table:
    """The table, with NULL for each such value."""
    columns = [_chunked(column) if _holds_time(column.type) else column for column in table.columns]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _chunked(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([_within(chunk) for chunk in column.chunks], type=column.type)


def _holds_time(of: pa.DataType) -> bool:
    if pa.types.is_nested(of):
        return any(_holds_time(of.field(i).type) for i in range(of.num_fields))
    return _bounds(of) is not None


def _bounds(of: pa.DataType) -> tuple[int, int] | None:
    """The first and the last value within the years, as numbers."""
    first, last = YEARS_S
    if pa.types.is_date32(of):
        return first // DAY_S, last // DAY_S
    if pa.types.is_timestamp(of) and of.unit in UNITS:
        return first * UNITS[of.unit], (last + 1) * UNITS[of.unit] - 1
    return None


def _within(array: pa.Array) -> pa.Array:
    of = array.type
    if not _holds_time(of):
        return array
    if pa.types.is_struct(of):
        parts = [_within(part) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(of), mask=array.is_null())
    if pa.types.is_map(of):
        lists = array.cast(pa.list_(pa.struct([of.key_field, of.item_field])))
        keys, items = (_within(part) for part in lists.flatten().flatten())
        return pa.MapArray.from_arrays(_offsets(lists), keys, items, type=of)
    if pa.types.is_nested(of):
        lists = array.cast(pa.list_(of.value_field))
        return pa.ListArray.from_arrays(_offsets(lists), _within(lists.flatten())).cast(of)
    first, last = _bounds(of) or (0, 0)
    number = array.cast(pa.int32() if pa.types.is_date32(of) else pa.int64())
    inside = pc.and_(pc.greater_equal(number, first), pc.less_equal(number, last))
    return pc.if_else(inside, array, pa.scalar(None, of))


def _offsets(lists: pa.Array) -> pa.Array:
    """The offset of each list in the flattened items; None for a list that is NULL."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_pylist()
    starts = zip(accumulate(lengths, initial=0), [*lists.is_valid().to_pylist(), True], strict=True)
    return pa.array([start if valid else None for start, valid in starts], pa.int32())
