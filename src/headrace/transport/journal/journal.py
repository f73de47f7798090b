"""The embedded transport: requests, durable before they are acknowledged, at positions used once."""

from __future__ import annotations

import os
import queue
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import orjson

from headrace.disk import disk_full, is_disk_full, read_format, refuse_newer, sync, write_format
from headrace.errors import FencedError, HeadraceError, UnavailableError
from headrace.faults import fault_point
from headrace.transport.base import Receipt
from headrace.transport.journal.ages import Ages
from headrace.transport.journal.keys import Keys
from headrace.transport.journal.reader import JournalReader
from headrace.transport.journal.record import (
    DURABLE,
    DURABLE_FILE,
    HEADER,
    Record,
    Segment,
    damaged,
    list_segments,
    pack,
    read_durable,
    segment_name,
    unpack,
)
from headrace.transport.journal.recover import look, recover
from headrace.transport.position import START, Position
from headrace.transport.sent import FilePiece, SentFiles

FORMAT = 1  # of a journal's folder: segments and their names, the durable end, the files that were sent
SEGMENT_BYTES = 256 << 20
MOST_GROUP = 16 << 20


@dataclass(frozen=True)
class _Request:
    payload: bytes
    meta: bytes
    arrived_us: int
    came_s: float  # the same moment by the monotonic clock
    key: str | None
    accepted: int
    refused: list[dict[str, object]]
    digest: str
    file: FilePiece | None
    done: Future[Receipt]


class _Order(Enum):
    """What else the writing thread may be told."""

    MEND = "mend"
    STOP = "stop"


class Journal:
    """The journal of one stream: a Transport of one partition, whose offsets count bytes.

    One thread writes; a group of waiting requests shares one fsync.

    `still_mine` raises when another process has taken the workspace over. It is asked after the
    fsync and before the acknowledgement: the taker reads the journal after it took the lease, so it
    sees every record that was acknowledged, and none that it did not see was.

    Arrival is what the wall clock says, also when it was set back: nothing rests on its order. Ages and
    the window of keys go by the monotonic clock as far as this process can know.
    """

    name = "journal"

    def __init__(
        self,
        folder: Path,
        *,
        fence: int,
        lake_end: Position = START,
        still_mine: Callable[[], None] = lambda: None,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        monotonic_s: Callable[[], float] = time.monotonic,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        check_format(folder)
        write_format(folder, FORMAT)
        self.folder = folder
        self._fence = fence
        self._still_mine = still_mine
        self._clock_us = clock_us
        self._monotonic_s = monotonic_s
        self._segment_bytes = segment_bytes
        self.keys = Keys(clock_us, monotonic_s)
        self.sent = SentFiles.read(folder)
        self._ages = Ages()
        self._failed: HeadraceError | None = None
        self._closing = threading.Lock()  # held while a request is queued: none comes behind the order to stop
        self._closed = False
        self._torn = False  # bytes of a refused group may lie behind the end
        self._wanted = 0  # bytes of the group that was refused last
        self.trouble: HeadraceError | None = None  # why the last write failed, until one succeeds
        # A journal that was lost restarts behind the lake: a position is never used twice.
        self._end = max(recover(folder, lake_end.offset(), self._remember), lake_end.offset())
        self._fd = self._durable_fd = -1
        self._open_segment()
        self._open_durable()
        self._queue: queue.SimpleQueue[_Request | _Order] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_loop, name=f"journal {folder.name}", daemon=True)
        self._thread.start()

    @property
    def end(self) -> Position:
        """The position behind all that is durable."""
        return Position.at(self._end)

    @property
    def reader(self) -> JournalReader:
        """What other processes read it by."""
        return JournalReader(self.folder)

    # Taking in

    def submit(
        self,
        payload: bytes,
        accepted: int,
        refused: list[dict[str, object]],
        *,
        key: str | None = None,
        digest: str = "",
        file: FilePiece | None = None,
    ) -> Future[Receipt]:
        """Queue one request of NDJSON lines; the future is done when it is on disk, with how far its file was sent."""
        if self._failed:
            raise self._failed
        said: dict[str, object] = {"key": key, "digest": digest, "accepted": accepted, "refused": refused}
        if file:
            said["file"] = file.as_dict()
        meta = orjson.dumps(said) if key or file else b""
        done: Future[Receipt] = Future()
        now_us, now_s = self._clock_us(), self._monotonic_s()
        request = _Request(payload, meta, now_us, now_s, key or None, accepted, refused, digest, file, done)
        with self._closing:
            if self._closed:
                raise UnavailableError(
                    f"stream '{self.folder.name}' accepts no more events: it was dropped, or the server is stopping",
                    fix="nothing of this request was stored; send it again",
                )
            self._queue.put(request)
        return done

    def recall(self, key: str) -> Receipt | None:
        """The receipt of an earlier request with this idempotency key, if it came within a day."""
        position = self.keys.find(key)
        found = self._read_record(position) if position is not None else None
        if found is None:
            return None
        record, meta = found
        said = orjson.loads(meta)
        if said["key"] != key:
            return None
        return Receipt(Position.at(record.end), said["accepted"], said["refused"], said["digest"])

    def now_us(self) -> int:
        """The clock that arrivals are read from."""
        return self._clock_us()

    def age_ms(self, position: Position) -> int | None:
        """How long ago the record at this position came; 0 if all lies before it; None if no clock can tell."""
        offset = position.offset()
        if offset >= self._end:
            return 0
        came_s = self._ages.came_s(offset)
        if came_s is not None:
            return int((self._monotonic_s() - came_s) * 1000)
        found = self._read_record(offset)
        age_ms = (self._clock_us() - found[0].arrived_us) // 1000 if found else -1
        return age_ms if age_ms >= 0 else None

    def reclaim(self, lake_end: Position) -> int:
        """Delete the files of which all is in the lake, on disk, and no key need be known any more; how many bytes.

        The file being written stays, so what comes next to it is known even if all others are gone.
        """
        limit, freed = min(lake_end.offset(), self.keys.forgotten_to()), 0
        for segment in list_segments(self.folder):
            if segment.end > limit or segment.start >= self._start:
                break
            self.sent.write(self.folder, self._fence)  # no record may be the only one that knows of a file
            fault_point("upkeep.before_reclaim")
            freed += segment.path.stat().st_size
            segment.path.unlink()
        return freed

    @property
    def start(self) -> Position:
        """The first position that is still held: what lies before it is in the lake only."""
        return Position.at(min((segment.start for segment in list_segments(self.folder)), default=self._end))

    def mend(self) -> None:
        """See whether a disk that was full takes a write again, and that the durable end can be read."""
        self._queue.put(_Order.MEND)

    def close(self) -> None:
        """Write what is queued, then stop."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._queue.put(_Order.STOP)
        self._thread.join()
        os.close(self._fd)
        os.close(self._durable_fd)

    # Writing

    def _write_loop(self) -> None:
        while (item := self._queue.get()) is not _Order.STOP:
            if isinstance(item, _Order):
                self._mend()
                continue
            group = self._gather(item)
            try:
                if self._failed:
                    raise self._failed
                self._write_group(group)
            except Exception as error:
                self._refuse(error, group)

    def _gather(self, first: _Request) -> list[_Request]:
        """The requests that wait, as many as one write takes."""
        group, size = [first], len(first.payload)
        while size < MOST_GROUP:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
            if isinstance(item, _Order):
                self._queue.put(item)  # after this group
                break
            group.append(item)
            size += len(item.payload)
        return group

    def _write_group(self, group: list[_Request]) -> None:
        self._wanted = sum(len(request.payload) for request in group)
        fault_point("journal.before_write")
        self._cut_off()
        if self._end - self._start >= self._segment_bytes:
            self._open_segment()
        position, chunks, ends = self._end, [], []
        for request in group:
            head = pack(request.meta, request.payload, request.arrived_us, position)
            chunks += [head, request.payload]
            position += len(head) + len(request.payload)
            ends.append(position)
        self._torn = True
        _write_all(self._fd, chunks, self._end - self._start)
        fault_point("journal.before_fsync")
        os.fdatasync(self._fd)
        fault_point("journal.after_fsync")
        self._still_mine()
        self._publish(position)
        self._ages.note(self._end, group[0].came_s)
        for request, start, end in zip(group, [self._end, *ends], ends, strict=False):
            self.keys.note(request.key, start, end, request.arrived_us)
            if request.file:
                self.sent.note(request.file, request.accepted, Position.at(end), request.arrived_us)
        self._end, self._torn, self.trouble = position, False, None
        for request, end in zip(group, ends, strict=True):
            request.done.set_result(Receipt(Position.at(end), request.accepted, request.refused, request.digest))

    def _refuse(self, error: Exception, group: list[_Request]) -> None:
        """Refuse these requests. What they left behind is cut off: now, or before the next write."""
        kept = "nothing of this request was stored"
        if not isinstance(error, HeadraceError):
            try:
                self._cut_off()
            except FencedError as fenced:
                error = fenced
            except OSError:
                kept = "part of this request may be on disk, so send it again under the same Idempotency-Key"
        self.trouble = self._explain(error, kept)
        if isinstance(error, HeadraceError):
            self._failed = error
        for request in group:
            request.done.set_exception(self.trouble)

    def _explain(self, error: Exception, kept: str) -> HeadraceError:
        if isinstance(error, HeadraceError):
            return error
        if is_disk_full(error):
            fix = f"{kept}; free space there and send it again"
            return disk_full(f"stream '{self.folder.name}' cannot accept events", self.folder, fix)
        return UnavailableError(
            f"journal '{self.folder}' cannot be written: {error}", fix=f"{kept}; try again when that is fixed"
        )

    def _cut_off(self) -> None:
        if self._torn:
            self._still_mine()  # who took over may have read what lies there, and counts on it
            os.ftruncate(self._fd, self._end - self._start)
            self._torn = False

    def _mend(self) -> None:
        try:
            if self.trouble is not None and self._failed is None:
                fault_point("journal.before_write")
                self._torn = True
                os.posix_fallocate(self._fd, self._end - self._start, max(self._wanted, 1 << 16))
                self.trouble = None
            self._cut_off()
            if read_durable(self.folder) != self._end:
                self._open_durable()
        except (OSError, FencedError) as error:
            self.trouble = self._explain(error, "nothing is lost")
            with suppress(OSError, FencedError):
                self._cut_off()

    def _open_segment(self) -> None:
        """Go on in a new file. If that cannot be made, nothing has changed."""
        path = self.folder / segment_name(self._end, self._fence)
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        sync(self.folder)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._start = opened, self._end
        self._files = [(s.start, s.path) for s in list_segments(self.folder) if s.end > s.start]
        self._files.append((self._end, path))

    def _open_durable(self) -> None:
        opened = os.open(self.folder / DURABLE_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        if self._durable_fd >= 0:
            os.close(self._durable_fd)
        self._durable_fd = opened
        self._publish(self._end)
        os.ftruncate(opened, DURABLE.size)  # it may have been garbage

    def _publish(self, end: int) -> None:
        raw = DURABLE.pack(end, 0)[:8]
        os.pwrite(self._durable_fd, DURABLE.pack(end, zlib.crc32(raw)), 0)

    # Reading back

    def _read_record(self, position: int) -> tuple[Record, bytes] | None:
        for start, path in reversed(self._files):
            if start <= position:
                with suppress(FileNotFoundError), path.open("rb") as file:
                    file.seek(position - start)
                    record = unpack(file.read(HEADER.size), position)
                    return (record, file.read(record.meta_bytes)) if record else None
                break
        return None

    def _remember(self, segment: Segment, record: Record) -> None:
        key = _note_sent(self.sent, segment, record)
        self.keys.note_old(key, record.position, record.end, record.arrived_us)


def check_format(folder: Path) -> int:
    """The format version of a journal. Raises NewerFormatError if this code does not read it."""
    version = read_format(folder)
    refuse_newer(f"journal '{folder}'", version, FORMAT)
    return version


def read_sent(folder: Path) -> SentFiles:
    """Which files were sent, as a journal that nobody writes says."""
    check_format(folder)
    sent = SentFiles.read(folder)
    look(folder, lambda segment, record: _note_sent(sent, segment, record))
    return sent


def _note_sent(sent: SentFiles, segment: Segment, record: Record) -> str | None:
    """Note the file that a record is a piece of; the record's key."""
    if not record.meta_bytes:
        return None
    with segment.path.open("rb") as file:
        file.seek(record.position + HEADER.size - segment.start)
        meta = file.read(record.meta_bytes)
    try:
        said = orjson.loads(meta)
        if "file" in said:
            sent.note(FilePiece.of(said["file"]), said["accepted"], Position.at(record.end), record.arrived_us)
        key: str | None = said["key"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise damaged(segment, record.position) from error
    return key


def _write_all(fd: int, chunks: list[bytes], offset: int) -> None:
    """Write all chunks at an offset, however many calls the system needs for it."""
    for batch_start in range(0, len(chunks), 512):
        views = [memoryview(chunk) for chunk in chunks[batch_start : batch_start + 512]]
        while views:
            written = os.pwritev(fd, views, offset)
            offset += written
            while views and written >= len(views[0]):
                written -= len(views.pop(0))
            if views:
                views[0] = views[0][written:]
