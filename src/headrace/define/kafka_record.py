"""Fields that are read from around an event: the parts of its Kafka record.

`k STRING FROM KEY`, `trace STRING FROM HEADER 'x'`; Flink's METADATA FROM 'timestamp' and ksqlDB's KEY mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.define.model import Field, Source
from headrace.errors import DefinitionError
from headrace.language.source_text import escape
from headrace.language.terms import quote
from headrace.types import BIGINT, INT, STRING, TIMESTAMP, Type, map_of

KEY, HEADERS, TIME, PARTITION, OFFSET, TOPIC = "key", "headers", "timestamp", "partition", "offset", "topic"
PARTS = (KEY, HEADERS, TIME, PARTITION, OFFSET, TOPIC)
_HEADER = "header:"  # and its name
_TYPES: dict[str, tuple[Type, ...]] = {
    KEY: (STRING,),
    HEADERS: (map_of(STRING),),
    TIME: (TIMESTAMP,),
    PARTITION: (INT, BIGINT),
    OFFSET: (BIGINT,),
    TOPIC: (STRING,),
}


def header(name: str) -> str:
    """The part of a record that is one header."""
    return f"{_HEADER}{name}"


def header_name(part: str) -> str | None:
    """The name of the header that a part is; None if it is another part."""
    return part.removeprefix(_HEADER) if part.startswith(_HEADER) else None


def describe_record(part: str) -> str:
    """Return what stands after the type of the field."""
    name = header_name(part)
    return f"FROM {part.upper()}" if name is None else f"FROM HEADER {escape(name)}"


def check_type(field: Field) -> None:
    """Refuse a type that this part of a record does not have."""
    assert field.record is not None, "it is a part of a record"
    types = _TYPES.get(field.record, (STRING,))
    if field.type not in types:
        part = describe_record(field.record).removeprefix("FROM ")
        computed = f"{quote(field.name)} {field.type} AS CAST({quote(field.name + '_text')} AS {field.type})"
        fix = f"declare it {types[0]}"
        if types == (STRING,) and not field.type.is_nested:
            name = quote(field.name + "_text")
            fix = f"write {name} STRING {describe_record(field.record)}, {computed}"
        raise DefinitionError(
            f"the field '{field.name}' is the {part} of a record", found=str(field.type), expected=str(types[0]),
            fix=fix,
        )  # fmt: skip


def check_record_fields(fields: Iterable[Field], source: Source | None, stream: str) -> None:
    """Refuse parts of Kafka records in a stream whose events are not in Kafka."""
    for field in fields:
        if field.record is not None and source is None:
            raise DefinitionError(
                f"stream '{stream}': the field '{field.name}' is read from Kafka, and the stream is not",
                found=describe_record(field.record),
                fix="add WITH (connector = 'kafka', topic = '…'), or remove it; the time of arrival is _arrived",
            )
