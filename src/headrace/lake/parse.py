"""From frames to typed columns, with a verdict per event. The same parser serves HTTP and append."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.define.model import TEXT, Field, Stream
from headrace.lake.columnar import Columnar
from headrace.lake.frames import Frames, as_lines, frame_lines
from headrace.lake.schema import field_schema
from headrace.lake.text import read_text
from headrace.lake.verdict import Refused, SecondParser

BLOCK = 32_768  # frames that are read at once
PIECES = 8  # that a block with a bad event in it is cut into, and each such piece again
PIECE = 64  # frames that are no longer cut
FEW, FEW_BYTES = 8, 1 << 16  # frames that are read one by one sooner than columnar
PROBE = 16  # frames that tell whether a piece with a bad event in it is bad throughout
TRIES = 3  # pieces of one block with a bad event in them: then bad ones are frequent, and cutting is in vain
LONGEST_SQL = 100  # of an expression that a reason shows
FUTURE_US = 24 * 3600 * 1_000_000  # an event time this far behind arrival is a broken clock's

_Read = tuple[pa.Table, pa.Array | None]  # columns, and reasons as in Parsed


@dataclass(frozen=True)
class Parsed:
    """The columns of all frames; `reasons` is NULL where the event is good. None: all are."""

    columns: pa.Table
    reasons: pa.Array | None


class Parser:
    """Reads the events of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        declared = [field for field in stream.fields if not field.computed]
        self._columnar = Columnar(declared)
        self._second = SecondParser(declared)
        self._declared = self._columnar.schema
        self._fields = field_schema(stream)
        self._computed = [field for field in stream.fields if field.computed]
        self._were_bad = False  # most of the last events that were looked at closer
        self._duckdb: Any = None  # opened when the first event comes
        self._select = ""

    def parse(self, frames: Frames, arrived_us: npt.NDArray[np.int64] | int) -> Parsed:
        """Typed columns and verdicts, in the frames' order."""
        table, reasons = self._read_text(frames) if self._stream.format == TEXT else self._read_json(frames)
        table = self._compute(table)
        return Parsed(table, self._judge(table, reasons, arrived_us))

    def _read_text(self, frames: Frames) -> tuple[pa.Table, pa.Array | None]:
        lines, reasons = read_text(frames)
        return pa.table([lines], schema=self._declared), reasons

    # Reading JSON

    def _read_json(self, frames: Frames) -> tuple[pa.Table, pa.Array | None]:
        read = [self._read_block(frames.slice(at, at + BLOCK)) for at in range(0, len(frames), BLOCK)]
        return _joined(read) if read else (self._declared.empty_table(), None)

    def _read_block(self, frames: Frames) -> _Read:
        if _are_few(frames) or (self._were_bad and self._are_bad(frames)):
            return self._judged(frames)
        table = self._columnar.read(frames)
        return self._read_closer(frames) if table is None else (table, None)

    def _read_closer(self, frames: Frames) -> _Read:
        """Piece by piece: the smaller ones without a bad event are still read columnar."""
        if len(frames) <= PIECE or self._are_bad(frames):
            return self._judged(frames)
        read: list[_Read] = []
        step, failed = -(-len(frames) // PIECES), 0
        for at in range(0, len(frames), step):
            piece = frames.slice(at, at + step)
            table = self._columnar.read(piece) if failed < TRIES else None
            if table is not None:
                read.append((table, None))
            elif failed < TRIES:
                failed += 1
                read.append(self._read_closer(piece))
            else:
                read.append(self._judged(piece))
        return _joined(read)

    def _are_bad(self, frames: Frames) -> bool:
        """Whether most events seem to be bad, by a few of them."""
        probe = range(0, len(frames), -(-len(frames) // PROBE))
        bad = sum(self._second.judge(frames[index]) is not None for index in probe)
        self._were_bad = 2 * bad > len(probe)
        return self._were_bad

    def _judged(self, frames: Frames) -> _Read:
        """One by one; what is good is read columnar all the same, if that can be done."""
        judge = self._second.judge
        reasons = [judge(frame) for frame in frames]
        good = np.array([reason is None for reason in reasons], dtype=bool)
        if not good.any():
            return self._declared.empty_table().take(pa.nulls(len(frames), pa.int64())), pa.array(reasons, pa.string())
        accepted = frame_lines(as_lines(frames.take(good)))
        table = None if _are_few(accepted) else self._columnar.read(accepted)
        if table is None:
            table, doubts = self._one_by_one(accepted)
            for at, doubt in zip(np.flatnonzero(good), doubts, strict=True):
                reasons[at] = doubt
        if not any(reasons):
            return table, None
        rows = pa.array(np.cumsum(good) - 1, mask=~good)
        return table.take(rows), pa.array(reasons, pa.string())

    def _one_by_one(self, frames: Frames) -> tuple[pa.Table, list[str | None]]:
        """Rows of events that were judged to be good. Should reading disagree with that, its word counts."""
        rows: list[Sequence[Any]] = []
        doubts: list[str | None] = []
        for frame in frames:
            try:
                rows.append(self._second.read(frame))
                doubts.append(None)
            except Refused as refused:
                rows.append([None] * len(self._declared))
                doubts.append(str(refused))
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(self._declared)]
        return pa.table(columns, schema=self._declared), doubts

    # Computed fields and the checks on all

    def _compute(self, table: pa.Table) -> pa.Table:
        if self._computed:
            if self._duckdb is None:
                self._duckdb, self._select = _computing(self._stream)
            self._duckdb.register("events", table)
            computed = self._duckdb.sql(f"SELECT {self._select} FROM events").to_arrow_table()
            for field in self._computed:
                table = table.append_column(field.name, computed.column(field.name))
        return table.select(self._fields.names).cast(self._fields)

    def _judge(
        self, table: pa.Table, reasons: pa.Array | None, arrived_us: npt.NDArray[np.int64] | int
    ) -> pa.Array | None:
        for field in self._stream.fields:
            column = table.column(field.name)
            if not field.nullable and column.null_count:
                reasons = _add(reasons, column.is_null(), _absent(f"field '{field.name}'", field))
        if self._stream.event_time is None:
            return reasons
        name = self._stream.event_time
        times = table.column(name)
        if times.null_count:
            field = next(field for field in self._stream.fields if field.name == name)
            reasons = _add(reasons, times.is_null(), _absent(f"event time '{name}'", field))
        us = times.cast(pa.int64())
        if (pc.min(us).as_py() or 0) < 0:
            reasons = _add(reasons, pc.less(us, 0), f"event time '{name}' is before 1970")
        latest = arrived_us + FUTURE_US
        if (pc.max(us).as_py() or 0) > (latest if isinstance(latest, int) else int(latest.min(initial=1 << 62))):
            late = pc.greater(us, pa.scalar(latest) if isinstance(latest, int) else pa.array(latest))
            reasons = _add(reasons, late, f"event time '{name}' is more than a day after arrival")
        return reasons


def _absent(what: str, field: Field) -> str:
    """Why there is no value: the event has none, or the expression gives none for what the event has."""
    if field.computed is None:
        return f"{what} is missing or null"
    sql = field.computed.sql
    return f"{what} is NULL; it is computed as {sql if len(sql) <= LONGEST_SQL else sql[:LONGEST_SQL] + '…'}"


def _computing(stream: Stream) -> tuple[Any, str]:
    """A DuckDB connection and the select list that gives the stream's computed fields."""
    # Heavy imports that few streams need.
    import duckdb

    from headrace.define.computed import duckdb_sql

    connection = duckdb.connect(config={"threads": 1, "autoload_known_extensions": False})
    connection.execute("SET TimeZone = 'UTC'")
    types = stream.types()
    columns = [f'{duckdb_sql(f.computed, types)} AS "{f.name}"' for f in stream.fields if f.computed]
    return connection, ", ".join(columns)


def _are_few(frames: Frames) -> bool:
    return len(frames) <= FEW and int((frames.ends - frames.starts).sum()) <= FEW_BYTES


def _joined(read: Sequence[_Read]) -> _Read:
    if len(read) == 1:
        return read[0]
    tables = pa.concat_tables([table for table, _ in read])
    if all(reasons is None for _, reasons in read):
        return tables, None
    said = [pa.nulls(len(table), pa.string()) if reasons is None else reasons for table, reasons in read]
    return tables, pa.concat_arrays(said)


def _add(reasons: pa.Array | None, broken: pa.ChunkedArray, reason: str) -> pa.Array:
    """The reasons, with this one for the events that are broken and have none yet."""
    broken = pc.fill_null(broken.combine_chunks() if isinstance(broken, pa.ChunkedArray) else broken, False)
    new = pc.if_else(broken, pa.scalar(reason), pa.scalar(None, pa.string()))
    return new if reasons is None else pc.coalesce(reasons, new)
