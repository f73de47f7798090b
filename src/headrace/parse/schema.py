"""The types of fields as Arrow types."""

from __future__ import annotations

import pyarrow as pa

from headrace.define.model import Stream
from headrace.types import Type

UTC_US = pa.timestamp("us", tz="UTC")


def arrow_type(of: Type) -> pa.DataType:
    """The type of its values in Arrow and Parquet."""
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
    """The stream's own columns. All are nullable: a dead letter has no values."""
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in stream.fields])
