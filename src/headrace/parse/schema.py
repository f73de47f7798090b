"""The types of fields as Arrow types."""

from __future__ import annotations

import pyarrow as pa

from headrace.define.model import Stream
from headrace.types import arrow_type

UTC_US = pa.timestamp("us", tz="UTC")


def field_schema(stream: Stream) -> pa.Schema:
    """The stream's own columns. All are nullable: a dead letter has no values."""
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in stream.fields])
