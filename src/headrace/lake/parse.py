"""From frames to typed columns, with a verdict per event. The same parser serves HTTP and append."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from headrace.define.model import TEXT, Stream
from headrace.lake.frames import Frames
from headrace.lake.schema import arrow_type, field_schema
from headrace.lake.text import read_text
from headrace.lake.verdict import Refused, event_reader

PIECE = 512  # frames that one bad neighbour sends to the second parser
FUTURE_US = 24 * 3600 * 1_000_000  # an event time this far behind arrival is a broken clock's


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
        self._declared = pa.schema([(field.name, arrow_type(field.type)) for field in declared])
        # pyarrow reads a DATE from integers only: take it as text and cast.
        self._json = pa.schema(
            [(f.name, pa.string() if pa.types.is_date32(f.type) else f.type) for f in self._declared]
        )
        self._fields = field_schema(stream)
        self._computed = [field for field in stream.fields if field.computed]
        self._read_event = event_reader(stream)
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
        table = self._fast(frames)
        return self._piecewise(frames) if table is None else (table, None)

    def _fast(self, frames: Frames) -> pa.Table | None:
        """All frames at once; None if one of them may need a closer look."""
        if not len(frames):
            return self._declared.empty_table()
        data = frames.data
        if not ((data[frames.starts] == ord("{")).all() and (data[frames.ends - 1] == ord("}")).all()):
            return None
        block = data[int(frames.starts[0]) : int(frames.ends[-1])]
        try:
            table = pj.read_json(
                pa.BufferReader(pa.py_buffer(block)),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=pj.ParseOptions(explicit_schema=self._json, unexpected_field_behavior="ignore"),
            )
            table.validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        if len(table) != len(frames):
            return None
        return self._cast_dates(table) if _all_finite(table) else None

    def _cast_dates(self, table: pa.Table) -> pa.Table | None:
        for index, field in enumerate(self._declared):
            if pa.types.is_date32(field.type):
                text = table.column(index)
                if pc.all(pc.equal(pc.binary_length(text), 10)).as_py() not in (True, None):
                    return None
                try:
                    table = table.set_column(index, field, text.cast(field.type))
                except pa.ArrowInvalid:
                    return None
        return table

    def _piecewise(self, frames: Frames) -> tuple[pa.Table, pa.Array]:
        tables, reasons = [], []
        for start in range(0, len(frames), PIECE):
            piece = frames.slice(start, start + PIECE)
            table = self._fast(piece) if len(frames) > PIECE else None
            said: list[str | None] = [None] * len(piece)
            if table is None:
                table, said = self._one_by_one(piece)
            tables.append(table)
            reasons.append(pa.array(said, pa.string()))
        return pa.concat_tables(tables), pa.concat_arrays(reasons)

    def _one_by_one(self, frames: Frames) -> tuple[pa.Table, list[str | None]]:
        rows: list[list[object]] = []
        reasons: list[str | None] = []
        nothing = [None] * len(self._declared)
        for index in range(len(frames)):
            try:
                rows.append(self._read_event(frames[index]))
                reasons.append(None)
            except Refused as refused:
                rows.append(list(nothing))
                reasons.append(str(refused))
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(self._declared)]
        table = pa.table(columns, schema=self._declared) if columns else pa.table({"_": [None] * len(rows)}).select([])
        return table, reasons

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
                reasons = _add(reasons, column.is_null(), f"field '{field.name}' is missing or null")
        if self._stream.event_time is None:
            return reasons
        name = self._stream.event_time
        times = table.column(name)
        if times.null_count:
            reasons = _add(reasons, times.is_null(), f"event time '{name}' is missing or null")
        us = times.cast(pa.int64())
        if (pc.min(us).as_py() or 0) < 0:
            reasons = _add(reasons, pc.less(us, 0), f"event time '{name}' is before 1970")
        latest = arrived_us + FUTURE_US
        if (pc.max(us).as_py() or 0) > (latest if isinstance(latest, int) else int(latest.min(initial=1 << 62))):
            late = pc.greater(us, pa.scalar(latest) if isinstance(latest, int) else pa.array(latest))
            reasons = _add(reasons, late, f"event time '{name}' is more than a day after arrival")
        return reasons


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


def _add(reasons: pa.Array | None, broken: pa.ChunkedArray, reason: str) -> pa.Array:
    """The reasons, with this one for the events that are broken and have none yet."""
    broken = pc.fill_null(broken.combine_chunks() if isinstance(broken, pa.ChunkedArray) else broken, False)
    new = pc.if_else(broken, pa.scalar(reason), pa.scalar(None, pa.string()))
    return new if reasons is None else pc.coalesce(reasons, new)


def _all_finite(table: pa.Table) -> bool:
    """JSON has no NaN and no infinity, though pyarrow reads them."""
    return all(
        pc.all(pc.is_finite(column)).as_py() is not False
        for column in table.columns
        if pa.types.is_floating(column.type)
    )
