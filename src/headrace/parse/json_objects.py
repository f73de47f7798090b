"""Reads JSON objects into typed columns: with a verdict per event, or leniently, with NULL for what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.define.model import JSON, Field
from headrace.parse.columnar_parser import Columnar
from headrace.parse.event_verdict import Refused, SecondParser
from headrace.parse.frames import Frames, as_lines, frame_lines, frame_values
from headrace.parse.uniform_parser import Uniform

BLOCK = 16_384  # frames that are read at once
MANY = 200  # frames from which the uniform parser is faster than the columnar one
PIECES = 8  # that a block with a bad event is divided into, and each such piece again
PIECE = 64  # frames that are not divided further
FEW, FEW_BYTES = 8, 1 << 16  # frames that are faster to read one by one
PROBE = 16  # frames that are tested for whether most of a piece is bad
TRIES = 3  # pieces of one block with a bad event: after that, bad ones are frequent, and dividing does not help

Read = tuple[pa.Table, pa.Array | None]  # columns, and reasons: NULL where the event is good; None if all are


class ObjectReader:
    """Reads the same fields of one block of events after the other."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._uniform = Uniform(fields)
        self._columnar = Columnar(fields)
        self._second = SecondParser(fields)
        self.schema = self._columnar.schema
        self._were_bad = False  # most of the events that were tested last

    def read(self, frames: Frames) -> Read:
        """The columns and the verdicts, in the frames' order; a refused event has NULL in all of them."""
        parts = [self._read_block(frames.slice(at, at + BLOCK)) for at in range(0, len(frames), BLOCK)]
        return _concatenate(parts) if parts else (self.schema.empty_table(), None)

    def _read_block(self, frames: Frames) -> Read:
        if _are_few(frames) or (self._were_bad and self._are_bad(frames)):
            return self._read_each(frames)
        if len(frames) >= MANY and (part := self._uniform.read(frames)):
            table, fits = part
            return (table, None) if fits.all() else self._add_others(table, fits, frames)
        all_columns = self._columnar.read(frames)
        return self._read_closer(frames) if all_columns is None else (all_columns, None)

    def _add_others(self, table: pa.Table, fits: npt.NDArray[np.bool_], frames: Frames) -> Read:
        """The rows of frames that fit, and those of the others, in the frames' order."""
        others, reasons = self._read_block(frame_values(JSON, frames.take(~fits).values()))
        order = np.empty(len(frames), dtype=np.int64)
        order[fits], order[~fits] = np.arange(len(table)), len(table) + np.arange(len(others))
        rows = pa.concat_tables([table, others]).take(pa.array(order))
        if reasons is None:
            return rows, None
        return rows, pa.concat_arrays([pa.nulls(len(table), pa.string()), reasons]).take(pa.array(order))

    def _read_closer(self, frames: Frames) -> Read:
        """Piece by piece: pieces without a bad event are still read columnar."""
        if len(frames) <= PIECE or self._are_bad(frames):
            return self._read_each(frames)
        parts: list[Read] = []
        step, failures = -(-len(frames) // PIECES), 0
        for at in range(0, len(frames), step):
            piece = frames.slice(at, at + step)
            table = self._columnar.read(piece) if failures < TRIES else None
            if table is not None:
                parts.append((table, None))
            elif failures < TRIES:
                failures += 1
                parts.append(self._read_closer(piece))
            else:
                parts.append(self._read_each(piece))
        return _concatenate(parts)

    def _are_bad(self, frames: Frames) -> bool:
        """Return whether most events are bad, estimated from a few of them."""
        probe = range(0, len(frames), -(-len(frames) // PROBE))
        bad = sum(self._second.refusal(frames[index]) is not None for index in probe)
        self._were_bad = 2 * bad > len(probe)
        return self._were_bad

    def _read_each(self, frames: Frames) -> Read:
        """Parse one event at a time; valid events are still read columnar where possible."""
        refusal = self._second.refusal
        reasons = [refusal(frame) for frame in frames]
        good = np.array([reason is None for reason in reasons], dtype=bool)
        if not good.any():
            return self.schema.empty_table().take(pa.nulls(len(frames), pa.int64())), pa.array(reasons, pa.string())
        good_frames = frame_lines(as_lines(frames.take(good)))
        table = None if _are_few(good_frames) else self._columnar.read(good_frames)
        if table is None:
            table, doubts = self._one_by_one(good_frames)
            for at, doubt in zip(np.flatnonzero(good), doubts, strict=True):
                reasons[at] = doubt
        if not any(reasons):
            return table, None
        rows = pa.array(np.cumsum(good) - 1, mask=~good)
        return table.take(rows), pa.array(reasons, pa.string())

    def _one_by_one(self, frames: Frames) -> tuple[pa.Table, list[str | None]]:
        """Rows of events that were judged good, and the reasons of those that cannot be read after all."""
        rows: list[Sequence[Any]] = []
        doubts: list[str | None] = []
        for frame in frames:
            try:
                rows.append(self._second.read(frame))
                doubts.append(None)
            except Refused as error:
                rows.append([None] * len(self.schema))
                doubts.append(str(error))
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(self.schema)]
        return pa.table(columns, schema=self.schema), doubts


class LenientReader:
    """Reads fields of events that are older than the fields: a value that does not fit is NULL in its field only."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._all = ObjectReader(fields)
        self._each = [ObjectReader([field]) for field in fields] if len(fields) > 1 else []

    def read(self, frames: Frames) -> pa.Table:
        """The columns, in the frames' order."""
        table, reasons = self._all.read(frames)
        if reasons is None or not self._each:
            return table
        bad = np.asarray(reasons.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
        bad_frames = frames.take(bad)
        rows = pa.table([reader.read(bad_frames)[0].column(0) for reader in self._each], schema=table.schema)
        return put_back(table, bad, rows)


def put_back(table: pa.Table, where: npt.NDArray[np.bool_], rows: pa.Table) -> pa.Table:
    """The table with the rows where `where` is true replaced by these."""
    at = np.arange(len(table))
    at[where] = len(table) + np.arange(len(rows))
    return pa.concat_tables([table, rows]).take(pa.array(at))


def _are_few(frames: Frames) -> bool:
    return len(frames) <= FEW and int((frames.ends - frames.starts).sum()) <= FEW_BYTES


def _concatenate(parts: Sequence[Read]) -> Read:
    if len(parts) == 1:
        return parts[0]
    tables = pa.concat_tables([table for table, _ in parts])
    if all(reasons is None for _, reasons in parts):
        return tables, None
    arrays = [pa.nulls(len(table), pa.string()) if reasons is None else reasons for table, reasons in parts]
    return tables, pa.concat_arrays(arrays)
