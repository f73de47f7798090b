"""The columns of a stream's table in the lake, as Arrow types; pins say which version of each table a commit saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from headrace.define.model import Stream
from headrace.lazy import np, pa
from headrace.parse.record_columns import field_schema, record_schema, utc_us

Pins = Mapping[str, int]  # by the stream that holds the changes of a table
ChoosePins = Callable[[], Pins]


def pins_type() -> pa.DataType:
    """The type of the column that has them."""
    return pa.map_(pa.string(), pa.int64())


def no_pins() -> Pins:
    """The pins of a workspace without tables."""
    return {}


def pin_column(pins: Pins, count: int) -> pa.Array:
    """A column with these pins in every row; NULL if there are none."""
    if not pins:
        return pa.nulls(count, pins_type())
    width = len(pins)
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    names = pa.array(pins, pa.string()).take(pa.array(np.tile(np.arange(width), count)))
    versions = np.tile(np.fromiter(pins.values(), dtype=np.int64), count)
    return pa.MapArray.from_arrays(pa.array(offsets), names, pa.array(versions))


COMMIT = "_commit"
COMMITTED_AT = "_committed_at"
ARRIVED = "_arrived"
NEWEST = "_newest"  # time of the stream before this commit: its newest event, or later if it was idle
POSITION = "_position"
DEAD = "_dead"
REASON = "_reason"
VALUE = "_value"  # the event exactly as it was received
TABLES = "_tables"  # which version of each table the commit saw; files of older releases do not have it


@cache
def reserved() -> pa.Schema:
    """The reserved columns, without those of records."""
    return pa.schema(
        [
            pa.field(COMMIT, pa.int64(), nullable=False),
            pa.field(COMMITTED_AT, utc_us(), nullable=False),
            pa.field(ARRIVED, utc_us(), nullable=False),
            pa.field(NEWEST, utc_us()),
            pa.field(POSITION, pa.int64(), nullable=False),
            pa.field(DEAD, pa.bool_(), nullable=False),
            pa.field(REASON, pa.string()),
            pa.field(VALUE, pa.binary(), nullable=False),
            pa.field(TABLES, pins_type()),
        ]
    )


def reserved_schema(stream: Stream) -> pa.Schema:
    """The columns that are not fields: of a stream in Kafka, also what its records have around the events."""
    return pa.schema([*reserved(), *record_schema(stream)])


def table_schema(stream: Stream) -> pa.Schema:
    """All columns of the stream's table."""
    return pa.schema([*reserved_schema(stream), *field_schema(stream)])
