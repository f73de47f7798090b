"""What a Spark worker does with one range of the journal: read, parse, write Parquet, tell.

Nothing that it writes counts until the driver commits it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.define.model import Stream
from headrace.disk import disk_full, is_disk_full
from headrace.errors import CorruptionError
from headrace.faults import fault_point
from headrace.lake.file import LakeFileWriter
from headrace.lake.schema import ARRIVED, DEAD, table_schema
from headrace.lake.since import Since, parse_since
from headrace.parse.frames import Frames, frame
from headrace.parse.parser import Parsed
from headrace.parse.schema import UTC_US
from headrace.transport.journal.record import Record, Segment, spans, walk

CHUNK_BYTES = 4 << 20
TOLD = "start BIGINT, end BIGINT, newest_us BIGINT, files STRING"


@dataclass(frozen=True)
class Work:
    """What all ranges of one commit share."""

    stream: Stream
    journal: str
    table: str
    commit: int
    committed_at_us: int
    newest_us: int | None
    since: Since = ()


def range_writer(work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for mapInArrow: rows (start, end) in, what became of each range out."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start, end in zip(batch["start"].to_pylist(), batch["end"].to_pylist(), strict=True):
                told = _write_range(work, start, end)
                yield pa.RecordBatch.from_pylist(
                    [told],
                    pa.schema(
                        [("start", pa.int64()), ("end", pa.int64()), ("newest_us", pa.int64()), ("files", pa.string())]
                    ),
                )

    return write


def _write_range(work: Work, start: int, end: int) -> dict[str, object]:
    live, dead = (LakeFileWriter(Path(work.table), work.commit, dead=dead) for dead in (False, True))
    try:
        return _write_files(work, start, end, live, dead)
    except BaseException as error:
        live.abandon()
        dead.abandon()
        if is_disk_full(error):
            raise disk_full(f"the lake of stream '{work.stream.name}' cannot be written", Path(work.table)) from None
        raise


def _write_files(work: Work, start: int, end: int, live: LakeFileWriter, dead: LakeFileWriter) -> dict[str, object]:
    newest: int | None = None
    for chunk in _chunks(work, start, end):
        frames, positions, arrived_us = chunk
        parsed = parse_since(work.stream, work.since, frames, positions, arrived_us)
        table = _rows(work, frames, positions, arrived_us, parsed)
        if parsed.reasons is None:
            good = table
        else:
            is_good = pc.is_null(parsed.reasons)
            good = table.filter(is_good)
            dead.write(table.filter(pc.invert(is_good)))
        live.write(good)
        newest = later(newest, newest_of(work.stream, good))
    fault_point("append.in_worker")
    files = [asdict(file) for file in (live.close(), dead.close()) if file]
    return {"start": start, "end": end, "newest_us": newest, "files": orjson.dumps(files).decode()}


def _chunks(work: Work, start: int, end: int) -> Iterator[tuple[Frames, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Frames of some megabytes, with the position and arrival of each."""
    for segment, first, last in spans(Path(work.journal), start, end):
        with segment.path.open("rb") as file:
            group: list[Record] = []
            size = 0
            for record in walk(segment, first, last):
                group.append(record)
                size += record.payload_bytes
                if size >= CHUNK_BYTES:
                    yield _frames(work.stream.format, file.fileno(), segment, group)
                    group, size = [], 0
            if group:
                yield _frames(work.stream.format, file.fileno(), segment, group)


def _frames(
    stream_format: str, fd: int, segment: Segment, records: list[Record]
) -> tuple[Frames, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    first, last = records[0].position, records[-1].end
    raw = os.pread(fd, last - first, first - segment.start)
    view = memoryview(raw)
    payloads = []
    for record in records:
        at = record.position - first
        if zlib.crc32(view[at + 8 : record.end - first]) != record.crc:
            raise CorruptionError(
                f"journal file '{segment.path}' is damaged at position {record.position}",
                fix="its events were not read; restore the file, or move it away to go on without them",
            )
        payloads.append(view[record.payload_position - first : record.end - first])
    frames = frame(stream_format, payloads[0] if len(payloads) == 1 else b"".join(payloads))
    lengths = np.array([record.payload_bytes for record in records], dtype=np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    of = np.searchsorted(offsets, frames.starts, side="right") - 1
    base = np.array([record.payload_position for record in records], dtype=np.int64) - offsets
    arrived = np.array([record.arrived_us for record in records], dtype=np.int64)
    return frames, frames.starts + base[of], arrived[of]


def _rows(
    work: Work,
    frames: Frames,
    positions: npt.NDArray[np.int64],
    arrived_us: npt.NDArray[np.int64],
    parsed: Parsed,
) -> pa.Table:
    count = len(frames)
    ours = [
        _constant(work.commit, pa.int64(), count),
        _constant(work.committed_at_us, UTC_US, count),
        pa.array(arrived_us).cast(UTC_US),
        _constant(work.newest_us, UTC_US, count),
        pa.array(positions),
        parsed.reasons if parsed.reasons is not None else pa.nulls(count, pa.string()),
        frames.values(),
    ]
    names = [name for name in table_schema(work.stream).names if name != DEAD]
    return pa.table([*ours, *parsed.columns.columns], names=names)


def _constant(value: int | None, of: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int64()).cast(of), count)


def newest_of(stream: Stream, rows: pa.Table) -> int | None:
    """The newest event time; a clock that runs ahead counts as the arrival."""
    if not len(rows):
        return None
    times = rows.column(ARRIVED).cast(pa.int64())
    if stream.event_time is not None:
        times = pc.min_element_wise(rows.column(stream.event_time).cast(pa.int64()), times)
    return int(pc.max(times).as_py())


def later(a: int | None, b: int | None) -> int | None:
    """The later of two times that may not be known."""
    return b if a is None else a if b is None else max(a, b)
