"""The columns of a stream's table in the lake, as Arrow types: first ours, then the stream's."""

from __future__ import annotations

import pyarrow as pa

from headrace.define.model import Stream
from headrace.types import Type

UTC_US = pa.timestamp("us", tz="UTC")

COMMIT = "_commit"
COMMITTED_AT = "_committed_at"
ARRIVED = "_arrived"
NEWEST = "_newest"  # newest event time of the stream before this commit
POSITION = "_position"
DEAD = "_dead"
REASON = "_reason"
VALUE = "_value"  # the event exactly as it came

OURS = pa.schema(
    [
        pa.field(COMMIT, pa.int64(), nullable=False),
        pa.field(COMMITTED_AT, UTC_US, nullable=False),
        pa.field(ARRIVED, UTC_US, nullable=False),
        pa.field(NEWEST, UTC_US),
        pa.field(POSITION, pa.int64(), nullable=False),
        pa.field(DEAD, pa.bool_(), nullable=False),
        pa.field(REASON, pa.string()),
        pa.field(VALUE, pa.binary(), nullable=False),
    ]
)


def arrow_type(of: Type) -> pa.DataType:
    """How a value of this type lies in Arrow and in Parquet."""
    match of.name:
        case "STRING":
            return pa.string()
        case "BOOLEAN":
            return pa.bool_()
        case "INT":
            return pa.int32()
        case "BIGINT":
            return pa.int64()
        case "DOUBLE":
            return pa.float64()
        case "DECIMAL":
            return pa.decimal128(of.precision, of.scale)
        case "DATE":
            return pa.date32()
        case "TIMESTAMP":
            return UTC_US
        case "ARRAY":
            return pa.list_(arrow_type(of.inner))
        case "MAP":
            return pa.map_(pa.string(), arrow_type(of.inner))
        case "STRUCT":
            return pa.struct([pa.field(name, arrow_type(part)) for name, part in of.parts])
        case _:
            return pa.binary()


def field_schema(stream: Stream) -> pa.Schema:
    """The stream's own columns. All nullable: a dead letter has none of them."""
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in stream.fields])


def table_schema(stream: Stream) -> pa.Schema:
    """All columns of the stream's table."""
    return pa.schema([*OURS, *field_schema(stream)])
