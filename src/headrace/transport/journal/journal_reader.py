"""Reads a journal's files in any process: its durable end, ranges of its records, and the events of a range."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import CorruptionError
from headrace.lazy import np
from headrace.parse.frames import frame
from headrace.transport.journal.journal_records import JournalRecord, Segment, cut, read_durable, spans, walk
from headrace.transport.position import Position, Range, event_base
from headrace.transport.transport_contract import TransportEvents

CHUNK_BYTES = 4 << 20
PARTITION = 0  # the only one


@dataclass(frozen=True)
class JournalReader:
    """The journal in a folder; an event's offset is that of its first byte."""

    folder: Path

    def end(self) -> Position:
        return Position.at(read_durable(self.folder) or 0)

    def bytes_between(self, start: Position, end: Position) -> int:
        return max(0, end.offset() - start.offset())

    def ranges(
        self, start: Position, end: Position, *, target_bytes: int, most_bytes: int | None = None
    ) -> list[Range]:
        most = self.bytes_between(start, end) if most_bytes is None else most_bytes
        offsets = cut(self.folder, start.offset(), end.offset(), target_bytes, most)
        return [Range(PARTITION, first, last) for first, last in offsets]

    def read(self, part: Range, stream_format: str) -> Iterator[TransportEvents]:
        for segment, first, last in spans(self.folder, part.start, part.end):
            with segment.path.open("rb") as file:
                group: list[JournalRecord] = []
                size = 0
                for record in walk(segment, first, last):
                    if group and size + record.payload_bytes > CHUNK_BYTES:
                        yield _events(stream_format, file.fileno(), segment, group)
                        group, size = [], 0
                    group.append(record)
                    size += record.payload_bytes
                if group:
                    yield _events(stream_format, file.fileno(), segment, group)


def _events(stream_format: str, fd: int, segment: Segment, records: list[JournalRecord]) -> TransportEvents:
    first, last = records[0].position, records[-1].end
    view = memoryview(os.pread(fd, last - first, first - segment.start))
    payloads = []
    for record in records:
        if not record.matches(view[record.position - first : record.end - first]):
            raise CorruptionError(
                f"journal file '{segment.path}' is damaged at position {record.position}",
                fix="its events were not read; restore the file, or move it away to continue without them",
            )
        payloads.append(view[record.payload_position - first : record.end - first])
    frames = frame(stream_format, payloads[0] if len(payloads) == 1 else b"".join(payloads))
    # The records are few, the events many: each record's values are repeated for its events.
    starts = np.cumsum([0, *(record.payload_bytes for record in records)])
    counts = np.diff(np.searchsorted(frames.starts, starts))
    positions = frames.starts + np.repeat([record.payload_position for record in records] - starts[:-1], counts)
    arrived = np.repeat(np.array([record.arrived_us for record in records], dtype=np.int64), counts)
    return TransportEvents(frames, positions + event_base(PARTITION), arrived)
