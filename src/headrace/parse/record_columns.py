"""Columns of events as Arrow types: those of fields, and what a Kafka record has around its value."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from headrace.define.kafka_record import HEADERS, KEY, OFFSET, PARTITION, TIME, TOPIC, describe_record, header_name
from headrace.define.kafka_source import read_source
from headrace.define.model import Field, Source, Stream
from headrace.lazy import np, pa, pc
from headrace.types import arrow_type

if TYPE_CHECKING:
    import numpy.typing as npt


@cache
def utc_us() -> pa.DataType:
    """The type of a time, in microseconds."""
    return pa.timestamp("us", tz="UTC")


def field_schema(stream: Stream) -> pa.Schema:
    """The stream's own columns. All are nullable: a dead letter has no values."""
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in stream.fields])


COLUMNS = {
    KEY: "_key",
    HEADERS: "_headers",
    TIME: "_timestamp",
    TOPIC: "_topic",
    PARTITION: "_partition",
    OFFSET: "_offset",
}


@cache
def record_columns() -> pa.Schema:
    """The columns that the lake of a stream in Kafka has of each record."""
    return pa.schema(
        [
            pa.field(COLUMNS[KEY], pa.binary()),
            pa.field(COLUMNS[HEADERS], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            pa.field(COLUMNS[TIME], utc_us()),
            pa.field(COLUMNS[TOPIC], pa.string()),
            pa.field(COLUMNS[PARTITION], pa.int32()),
            pa.field(COLUMNS[OFFSET], pa.int64()),
        ]
    )


def record_schema(stream: Stream) -> pa.Schema:
    """The columns of records that the lake of a stream has: none if its events are not in Kafka."""
    return record_columns() if stream.source else pa.schema([])


def columns_of(fields: Sequence[Field]) -> list[str]:
    """The columns that these fields are read from."""
    parts = [HEADERS if header_name(field.record) is not None else field.record for field in fields if field.record]
    return [COLUMNS[part] for part in dict.fromkeys(parts)]


def sent_records(source: Source | None, count: int, arrived_us: npt.NDArray[np.int64] | int) -> pa.Table:
    """Records as they will be, of events that are on their way to Kafka: without a key, with the time of arrival."""
    times = np.full(count, arrived_us) if isinstance(arrived_us, int) else arrived_us
    topics = read_source(source).topics if source else ()
    values = {
        COLUMNS[KEY]: pa.nulls(count, pa.binary()),
        COLUMNS[HEADERS]: pa.nulls(count, record_columns().field(COLUMNS[HEADERS]).type),
        COLUMNS[TIME]: pa.array(times).cast(utc_us()),
        COLUMNS[TOPIC]: pa.repeat(pa.scalar(topics[0] if topics else "", pa.string()), count),
        COLUMNS[PARTITION]: pa.repeat(pa.scalar(0, pa.int32()), count),
        COLUMNS[OFFSET]: pa.array(np.arange(count, dtype=np.int64)),
    }
    return pa.table([values[name] for name in record_columns().names], schema=record_columns())


class RecordReader:
    """Reads the fields that are parts of records. A text that is not UTF-8 is NULL, and a reason unless `lenient`."""

    def __init__(self, fields: Sequence[Field], lenient: Sequence[str] = ()) -> None:
        self._fields = fields
        self._lenient = lenient

    def read(self, records: pa.Table) -> tuple[list[pa.Array], pa.Array | None]:
        """A column for each field, and why an event is refused: NULL where it is not, None if none is."""
        columns, reasons = [], None
        for field in self._fields:
            column, bad = _column(field, records)
            columns.append(column)
            if bad is not None and field.name not in self._lenient:
                assert field.record is not None, "it is a part of a record"
                text = f"field '{field.name}' {describe_record(field.record)} is not UTF-8"
                new = pc.if_else(bad, pa.scalar(text), pa.scalar(None, pa.string()))
                reasons = new if reasons is None else pc.coalesce(reasons, new)
        return columns, reasons


def _column(field: Field, records: pa.Table) -> tuple[pa.Array, pa.Array | None]:
    """The values, and which of them are not UTF-8; None if all are."""
    part = field.record
    assert part is not None, "it is a part of a record"
    name = header_name(part)
    if name is not None:
        return _text(_last_header(_one(records, HEADERS), name))
    column = _one(records, part)
    if part == KEY:
        return _text(column)
    if part == HEADERS:
        return _header_map(column), None
    return column.cast(arrow_type(field.type)), None


def _one(records: pa.Table, part: str) -> pa.Array:
    return records.column(COLUMNS[part]).combine_chunks()


def _text(values: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Bytes as text."""
    try:
        return values.cast(pa.string()), None
    except pa.ArrowInvalid:
        texts = [_decoded(value) for value in values.to_pylist()]  # some are bad, which is rare
        column = pa.array(texts, pa.string())
        return column, pc.and_(column.is_null(), values.is_valid())


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _last_header(headers: pa.Array, name: str) -> pa.Array:
    """The last value of a header in each record, as Kafka's clients read one."""
    count = len(headers)
    if headers.null_count == count:
        return pa.nulls(count, pa.binary())
    pairs = headers.flatten()
    keys, values = pairs.field("key"), pairs.field("value")
    at = pc.indices_nonzero(pc.fill_null(pc.equal(keys, name), False))
    rows = np.asarray(pc.list_parent_indices(headers).take(at), dtype=np.int64)
    indexes = np.full(count, -1, dtype=np.int64)
    indexes[rows] = np.asarray(at, dtype=np.int64)  # of a row that occurs twice, the last is kept
    column: pa.Array = values.take(pa.array(indexes, mask=indexes < 0))
    return column


def _header_map(headers: pa.Array) -> pa.Array:
    """All headers as a map; of a name that occurs twice, the last value; values that are not UTF-8 are NULL."""
    if headers.null_count == len(headers):
        return pa.nulls(len(headers), pa.map_(pa.string(), pa.string()))
    rows = [
        None if row is None else list({pair["key"]: _decoded(pair["value"]) for pair in row}.items())
        for row in headers.to_pylist()
    ]
    return pa.array(rows, pa.map_(pa.string(), pa.string()))
