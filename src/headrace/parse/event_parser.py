"""Parses frames into typed columns, with a verdict per event. The same parser serves HTTP and append."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.define.kafka_record import KEY
from headrace.define.kafka_source import read_delimiter
from headrace.define.model import CSV, TEXT, Field, Stream
from headrace.engine.duckdb_session import Computing
from headrace.engine.value_bounds import LONGEST_KEY
from headrace.parse.csv_rows import RowReader
from headrace.parse.frames import Frames
from headrace.parse.json_objects import LenientReader, ObjectReader, Read
from headrace.parse.record_columns import RecordReader, field_schema, sent_records
from headrace.parse.tombstones import has_deletes
from headrace.types import STRING

LONGEST_SQL = 100  # characters of an expression in a reason
FUTURE_US = 24 * 3600 * 1_000_000  # an event time this much later than the arrival is of a wrong clock
_BEYOND_ASCII = 0x80


@dataclass(frozen=True)
class Parsed:
    """The columns of all frames; `reasons` is NULL where the event is good, and None if all are."""

    columns: pa.Table
    reasons: pa.Array | None


class Parser:
    """Reads the events of one stream. In its `lenient` fields, values that do not fit are NULL and not refused."""

    def __init__(self, stream: Stream, lenient: Collection[str] = ()) -> None:
        self._stream = stream
        declared = [field for field in stream.fields if field.is_sent]
        self._record_fields = [field for field in stream.fields if field.record]
        self._records = RecordReader(self._record_fields, list(lenient))
        self._strict = ObjectReader([field for field in declared if field.name not in lenient])
        later = [field for field in declared if field.name in lenient]
        self._lenient = LenientReader(later) if later else None
        self._rows = RowReader(declared, read_delimiter(stream.source)) if stream.format == CSV else None
        self._computing = Computing(stream, [field for field in stream.fields if field.computed])
        self._fields = field_schema(stream)
        self._keys = [field.name for field in stream.fields if field.type == STRING and _is_key(stream, field)]

    def parse(self, frames: Frames, arrived_us: npt.NDArray[np.int64] | int, records: pa.Table | None = None) -> Parsed:
        """Typed columns and verdicts, in the frames' order; `records` are those of Kafka, once events are there."""
        table, reasons = self._read_value(frames)
        if self._record_fields:
            if records is None:
                records = sent_records(self._stream.source, len(frames), arrived_us)
            table, reasons = self._read_records(table, reasons, records)
        table = self._computing.add_to(table).select(self._fields.names).cast(self._fields)
        return Parsed(table, self._reasons(table, reasons, arrived_us))

    def _read_value(self, frames: Frames) -> Read:
        if self._stream.format == TEXT:
            return self._read_text(frames)
        if self._rows is None:
            return self._read_json(frames)
        lines, not_text = read_text(frames)
        objects, bad = self._rows.read(lines)
        table, reasons = self._read_json(objects)
        for earlier in (bad, not_text):
            if earlier is not None:
                reasons = earlier if reasons is None else pc.coalesce(earlier, reasons)
        return table, reasons

    def _read_text(self, frames: Frames) -> Read:
        lines, reasons = read_text(frames)
        return pa.table([lines], schema=self._strict.schema), reasons

    def _read_json(self, frames: Frames) -> Read:
        table, reasons = self._strict.read(frames)
        if self._lenient is not None:
            later = self._lenient.read(frames)
            for field, column in zip(later.schema, later.columns, strict=True):
                table = table.append_column(field, column)
        return table, reasons

    def _read_records(self, table: pa.Table, reasons: pa.Array | None, records: pa.Table) -> Read:
        columns, bad = self._records.read(records)
        for field, column in zip(self._record_fields, columns, strict=True):
            table = table.append_column(field.name, column)
        return table, bad if reasons is None else reasons if bad is None else pc.coalesce(reasons, bad)

    def _reasons(
        self, table: pa.Table, reasons: pa.Array | None, arrived_us: npt.NDArray[np.int64] | int
    ) -> pa.Array | None:
        for field in self._stream.fields:
            column = table.column(field.name)
            if not field.nullable and column.null_count:
                reasons = _add(reasons, column.is_null(), _absent(f"field '{field.label}'", field))
        for name in self._keys:
            column = table.column(name)
            if (pc.max(pc.binary_length(column)).as_py() or 0) > LONGEST_KEY:
                long = pc.greater(pc.binary_length(column), LONGEST_KEY)
                reasons = _add(reasons, long, f"key '{name}' is longer than {LONGEST_KEY:,} bytes")
        if self._stream.event_time is None:
            return reasons
        name = self._stream.event_time
        times = table.column(name)
        if times.null_count:
            field = next(field for field in self._stream.fields if field.name == name)
            reasons = _add(reasons, times.is_null(), _absent(f"event time '{field.label}'", field))
        us = times.cast(pa.int64())
        if (pc.min(us).as_py() or 0) < 0:
            reasons = _add(reasons, pc.less(us, 0), f"event time '{name}' is before 1970")
        latest = arrived_us + FUTURE_US
        if (pc.max(us).as_py() or 0) > (latest if isinstance(latest, int) else int(latest.min(initial=1 << 62))):
            late = pc.greater(us, pa.scalar(latest) if isinstance(latest, int) else pa.array(latest))
            reasons = _add(reasons, late, f"event time '{name}' is more than a day after arrival")
        return reasons


def _is_key(stream: Stream, field: Field) -> bool:
    """Return whether a field is a declared key: of a table, of a record of Kafka, or of events that count once."""
    of_table = has_deletes(stream) and not field.nullable
    return of_table or field.record == KEY or (stream.unique is not None and field.name in stream.unique.columns)


def _absent(what: str, field: Field) -> str:
    """The reason why there is no value: the event has none, or the expression is NULL for the event."""
    if field.computed is None:
        return f"{what} is missing or null"
    sql = field.computed.sql
    return f"{what} is NULL; it is computed as {sql if len(sql) <= LONGEST_SQL else sql[:LONGEST_SQL] + '…'}"


def _add(reasons: pa.Array | None, broken: pa.Array | pa.ChunkedArray, reason: str) -> pa.Array:
    """The reasons, with this one for the broken events that have none yet."""
    broken = pc.fill_null(broken.combine_chunks() if isinstance(broken, pa.ChunkedArray) else broken, False)
    new = pc.if_else(broken, pa.scalar(reason), pa.scalar(None, pa.string()))
    return new if reasons is None else pc.coalesce(reasons, new)


def read_text(frames: Frames) -> tuple[pa.Array, pa.Array | None]:
    """The lines, NULL where one is not UTF-8, and the reasons for that; None if all are good."""
    values = frames.values().view(pa.string())
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return _read_each(frames)
    return values, None


def _read_each(frames: Frames) -> tuple[pa.Array, pa.Array]:
    reasons: list[str | None] = [None] * len(frames)
    not_ascii = np.maximum.reduceat(frames.data, frames.starts) >= _BEYOND_ASCII
    for index in np.flatnonzero(not_ascii).tolist():
        try:
            frames[index].decode()
        except UnicodeDecodeError as error:
            reasons[index] = f"not UTF-8 at byte {error.start}"
    bad = np.array([reason is not None for reason in reasons])
    lengths = np.where(bad, 0, frames.ends - frames.starts)
    good = Frames(frames.data, frames.starts, frames.starts + lengths)
    nulls = pa.array(~bad)
    values = good.values()
    return (
        pa.Array.from_buffers(pa.string(), len(frames), [nulls.buffers()[1], *values.buffers()[1:]]),
        pa.array(reasons, pa.string()),
    )
