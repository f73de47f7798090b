"""The files of a journal that is open for writing: its segments and its durable end.

What the records hold, and who waits for them, is the business of `journal.py`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from headrace.disk import sync
from headrace.faults import fault_point
from headrace.transport.journal.journal_records import (
    DURABLE,
    DURABLE_FILE,
    HEADER,
    JournalRecord,
    Segment,
    list_segments,
    pack,
    read_durable,
    segment_name,
    unpack,
)


class NewRecord(NamedTuple):
    """The parts that a record is written from."""

    meta: bytes
    payload: bytes | memoryview
    arrived_us: int


class Segments:
    """Appends records to the newest segment of a journal and starts a new segment when that one is large enough.

    Only the writing thread of the journal changes it; any thread may read `end`, `start` and records.
    """

    def __init__(
        self, folder: Path, end: int, *, fence: int, still_mine: Callable[[], None], segment_bytes: int
    ) -> None:
        self._folder = folder
        self._fence = fence
        self._still_mine = still_mine
        self._segment_bytes = segment_bytes
        self._torn = False  # bytes of a failed write may follow the end
        self._fd = self._durable_fd = -1
        self.end = end  # the end of the last record that was acknowledged or is about to be
        self._open_segment()
        self._open_durable()

    @property
    def start(self) -> int:
        """The first position that is still stored; the end if there is no segment."""
        return min((segment.start for segment in list_segments(self._folder)), default=self.end)

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Write records, durable when this returns, and return the end of each.

        They count only after `advance`: until then, `cut_off` removes them. Raises OSError if the disk fails, and
        what `still_mine` raises if another process has taken over.
        """
        fault_point("journal.before_write")
        self.cut_off()
        if self.end - self._segment_start >= self._segment_bytes:
            self._open_segment()
        position, ends = self.end, []
        chunks: list[bytes | memoryview] = []
        for record in records:
            head = pack(record.meta, record.payload, record.arrived_us, position)
            chunks += [head, record.payload]
            position += len(head) + len(record.payload)
            ends.append(position)
        self._torn = True
        _write_all(self._fd, chunks, self.end - self._segment_start)
        fault_point("journal.before_fsync")
        os.fdatasync(self._fd)
        fault_point("journal.after_fsync")
        self._still_mine()
        self._publish(position)
        return ends

    def advance(self, end: int) -> None:
        """Make the records before this position part of the journal."""
        self.end, self._torn = end, False

    def cut_off(self) -> None:
        """Remove what a failed write may have left after the end."""
        if self._torn:
            self._still_mine()  # a process that took over may have read these bytes, and relies on them
            os.ftruncate(self._fd, self.end - self._segment_start)
            self._torn = False

    def reserve(self, size: int) -> None:
        """Check that the disk has room for this many bytes; raises OSError if not. `cut_off` releases them."""
        fault_point("journal.before_write")
        self._torn = True
        os.posix_fallocate(self._fd, self.end - self._segment_start, size)

    def repair_durable(self) -> None:
        """Write the durable end again if its file does not contain it."""
        if read_durable(self._folder) != self.end:
            self._open_durable()

    def complete_before(self, position: int) -> list[Segment]:
        """The segments that end at or before a position, oldest first; never the one that is being written."""
        segments = list_segments(self._folder)
        return list(takewhile(lambda each: each.end <= position and each.start < self._segment_start, segments))

    def read_record(self, position: int) -> tuple[JournalRecord, bytes] | None:
        """The record that begins at a position, and its meta; None if its segment was deleted."""
        for start, path in reversed(self._paths):
            if start <= position:
                with suppress(FileNotFoundError), path.open("rb") as file:
                    file.seek(position - start)
                    record = unpack(file.read(HEADER.size), position)
                    return (record, file.read(record.meta_bytes)) if record else None
                break
        return None

    def close(self) -> None:
        os.close(self._fd)
        os.close(self._durable_fd)

    def _open_segment(self) -> None:
        """Continue in a new file. If it cannot be created, nothing has changed."""
        path = self._folder / segment_name(self.end, self._fence)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        sync(self._folder)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._segment_start = fd, self.end
        self._paths = [(s.start, s.path) for s in list_segments(self._folder) if s.end > s.start]
        self._paths.append((self.end, path))

    def _open_durable(self) -> None:
        fd = os.open(self._folder / DURABLE_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        if self._durable_fd >= 0:
            os.close(self._durable_fd)
        self._durable_fd = fd
        self._publish(self.end)
        os.ftruncate(fd, DURABLE.size)  # the file may have contained anything

    def _publish(self, end: int) -> None:
        raw = DURABLE.pack(end, 0)[:8]
        os.pwrite(self._durable_fd, DURABLE.pack(end, zlib.crc32(raw)), 0)


def _write_all(fd: int, chunks: Sequence[bytes | memoryview], offset: int) -> None:
    """Write all chunks at an offset, in as many system calls as it takes."""
    for batch_start in range(0, len(chunks), 512):
        views = [memoryview(chunk) for chunk in chunks[batch_start : batch_start + 512]]
        while views:
            size = os.pwritev(fd, views, offset)
            offset += size
            while views and size >= len(views[0]):
                size -= len(views.pop(0))
            if views:
                views[0] = views[0][size:]
