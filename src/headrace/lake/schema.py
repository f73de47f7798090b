"""The columns of a stream's table in the lake, as Arrow types: the reserved ones, then the stream's fields."""

from __future__ import annotations

import pyarrow as pa

from headrace.define.model import Stream
from headrace.lake.pins import PINS
from headrace.parse.record import record_schema
from headrace.parse.schema import UTC_US, field_schema

COMMIT = "_commit"
COMMITTED_AT = "_committed_at"
ARRIVED = "_arrived"
NEWEST = "_newest"  # time of the stream before this commit: its newest event, or later if it was idle
POSITION = "_position"
DEAD = "_dead"
REASON = "_reason"
VALUE = "_value"  # the event exactly as it was received
TABLES = "_tables"  # which version of each table the commit saw; files of older releases do not have it

RESERVED = pa.schema(
    [
        pa.field(COMMIT, pa.int64(), nullable=False),
        pa.field(COMMITTED_AT, UTC_US, nullable=False),
        pa.field(ARRIVED, UTC_US, nullable=False),
        pa.field(NEWEST, UTC_US),
        pa.field(POSITION, pa.int64(), nullable=False),
        pa.field(DEAD, pa.bool_(), nullable=False),
        pa.field(REASON, pa.string()),
        pa.field(VALUE, pa.binary(), nullable=False),
        pa.field(TABLES, PINS),
    ]
)


def reserved_schema(stream: Stream) -> pa.Schema:
    """The columns that are not fields: of a stream in Kafka, also what its records have around the events."""
    return pa.schema([*RESERVED, *record_schema(stream)])


def table_schema(stream: Stream) -> pa.Schema:
    """All columns of the stream's table."""
    return pa.schema([*reserved_schema(stream), *field_schema(stream)])
