"""The columns of a stream's table in the lake, as Arrow types: the reserved ones, then the stream's fields."""

from __future__ import annotations

from functools import cache

from headrace.arrow import pa
from headrace.define.model import Stream
from headrace.lake.pins import pins_type
from headrace.parse.record import record_schema
from headrace.parse.schema import field_schema, utc_us

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
