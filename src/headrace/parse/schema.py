"""The types of fields as Arrow types."""

from __future__ import annotations

from functools import cache

from headrace.arrow import pa
from headrace.define.model import Stream
from headrace.types import arrow_type


@cache
def utc_us() -> pa.DataType:
    """The type of a time, in microseconds."""
    return pa.timestamp("us", tz="UTC")


def field_schema(stream: Stream) -> pa.Schema:
    """The stream's own columns. All are nullable: a dead letter has no values."""
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in stream.fields])
