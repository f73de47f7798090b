"""The embedded transport: requests, durable before they are acknowledged, at positions used once."""

from __future__ import annotations

import hashlib
import os
import queue
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import orjson

from headrace.errors import CorruptionError, HeadraceError, UnavailableError
from headrace.faults import fault_point
from headrace.transport.record import (
    DURABLE,
    DURABLE_FILE,
    HEADER,
    Record,
    Segment,
    is_intact,
    list_segments,
    pack,
    read_durable,
    segment_name,
    unpack,
    walk,
)

SEGMENT_BYTES = 256 << 20
KEY_WINDOW_US = 24 * 3600 * 1_000_000  # how long a retried request is recognised


@dataclass(frozen=True)
class Receipt:
    """What was taken in: `end` is the position behind it."""

    end: int
    accepted: int
    refused: list[dict[str, object]]
    digest: str = ""


@dataclass(frozen=True)
class _Request:
    payload: bytes
    meta: bytes
    arrived_us: int
    key: bytes | None
    accepted: int
    refused: list[dict[str, object]]
    digest: str
    done: Future[Receipt]


def _key_hash(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


class Journal:
    """The journal of one stream. One thread writes; a group of waiting requests shares one fsync.

    `still_mine` raises when another process has taken the workspace over. It is asked after the
    fsync and before the acknowledgement: the taker reads the journal after it took the lease, so it
    sees every record that was acknowledged, and none that it did not see was.
    """

    def __init__(
        self,
        folder: Path,
        *,
        fence: int,
        lake_end: int = 0,
        still_mine: Callable[[], None] = lambda: None,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._fence = fence
        self._still_mine = still_mine
        self._clock_us = clock_us
        self._segment_bytes = segment_bytes
        self._keys: dict[bytes, int] = {}  # hash of an idempotency key -> position of its record
        self._lock = threading.Lock()
        self._failed: HeadraceError | None = None
        # A journal that was lost restarts behind the lake: a position is never used twice.
        self.end = max(self._recover(lake_end), lake_end)
        self._durable_fd = os.open(folder / DURABLE_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        self._open_segment()
        self._publish()
        self._queue: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_loop, name=f"journal {folder.name}", daemon=True)
        self._thread.start()

    # Taking in

    def submit(
        self,
        payload: bytes,
        accepted: int,
        refused: list[dict[str, object]],
        *,
        key: str | None = None,
        digest: str = "",
    ) -> Future[Receipt]:
        """Queue one request of NDJSON lines; the future is done when it is on disk."""
        if self._failed:
            raise self._failed
        said = {"key": key, "digest": digest, "accepted": accepted, "refused": refused}
        meta = orjson.dumps(said) if key else b""
        key_hash = _key_hash(key) if key else None
        done: Future[Receipt] = Future()
        self._queue.put(_Request(payload, meta, self._clock_us(), key_hash, accepted, refused, digest, done))
        return done

    def recall(self, key: str) -> Receipt | None:
        """The receipt of an earlier request with this idempotency key, if it came within a day."""
        with self._lock:
            position = self._keys.get(_key_hash(key))
        found = self._read_record(position) if position is not None else None
        if found is None or found[0].arrived_us < self._clock_us() - KEY_WINDOW_US:
            return None
        record, meta = found
        said = orjson.loads(meta)
        return Receipt(record.end, said["accepted"], said["refused"], said["digest"]) if said["key"] == key else None

    def now_us(self) -> int:
        """The clock that arrivals are read from."""
        return self._clock_us()

    def arrived_us(self, position: int) -> int | None:
        """When the record at this position came; None if all that came lies before it."""
        if position >= self.end:
            return None
        found = self._read_record(position)
        return found[0].arrived_us if found else None

    def close(self) -> None:
        """Write what is queued, then stop."""
        self._queue.put(None)
        self._thread.join()
        os.close(self._fd)
        os.close(self._durable_fd)

    # Writing

    def _write_loop(self) -> None:
        while True:
            group = self._next_group()
            if not group:
                return
            try:
                self._write_group(group)
            except Exception as error:
                self._fail(error, group)

    def _next_group(self) -> list[_Request]:
        """The waiting requests; empty at the end."""
        first = self._queue.get()
        if first is None:
            return []
        group, size = [first], len(first.payload)
        while size < 16 << 20:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
            if item is None:
                self._queue.put(None)  # stop after this group
                break
            group.append(item)
            size += len(item.payload)
        return group

    def _write_group(self, group: list[_Request]) -> None:
        fault_point("journal.before_write")
        if self.end - self._start >= self._segment_bytes:
            os.close(self._fd)
            self._open_segment()
        position, chunks, ends, keys = self.end, [], [], {}
        for request in group:
            head = pack(request.meta, request.payload, request.arrived_us, position)
            chunks += [head, request.payload]
            if request.key:
                keys[request.key] = position
            position += len(head) + len(request.payload)
            ends.append(position)
        _write_all(self._fd, chunks, self.end - self._start)
        fault_point("journal.before_fsync")
        os.fdatasync(self._fd)
        fault_point("journal.after_fsync")
        self._still_mine()
        with self._lock:
            self._keys.update(keys)
        self.end = position
        self._publish()
        for request, end in zip(group, ends, strict=True):
            request.done.set_result(Receipt(end, request.accepted, request.refused, request.digest))

    def _fail(self, error: Exception, group: list[_Request]) -> None:
        """Refuse these requests; the records that they left behind are cut off, or the journal stops."""
        if isinstance(error, HeadraceError):
            self._failed = error
        else:
            try:
                os.ftruncate(self._fd, self.end - self._start)
            except OSError:
                self._failed = UnavailableError(f"journal '{self.folder}' cannot be written: {error}")
        said = (
            error
            if isinstance(error, HeadraceError)
            else UnavailableError(
                f"journal '{self.folder}' cannot be written: {error}", fix="nothing of this request was kept; try again"
            )
        )
        for request in group:
            request.done.set_exception(said)

    def _open_segment(self) -> None:
        self._start = self.end
        path = self.folder / segment_name(self.end, self._fence)
        self._files = [(s.start, s.path) for s in list_segments(self.folder) if s.end > s.start]
        self._files.append((self.end, path))
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        folder_fd = os.open(self.folder, os.O_RDONLY)
        os.fsync(folder_fd)
        os.close(folder_fd)

    def _publish(self) -> None:
        raw = DURABLE.pack(self.end, 0)[:8]
        os.pwrite(self._durable_fd, DURABLE.pack(self.end, zlib.crc32(raw)), 0)

    # Reading back

    def _read_record(self, position: int) -> tuple[Record, bytes] | None:
        for start, path in reversed(self._files):
            if start <= position:
                with path.open("rb") as file:
                    file.seek(position - start)
                    record = unpack(file.read(HEADER.size), position)
                    return (record, file.read(record.meta_bytes)) if record else None
        return None

    def _recover(self, lake_end: int) -> int:
        """Read the journal's records again; cut off a torn one at its end. Returns the end."""
        segments = [s for s in list_segments(self.folder) if s.end > s.start]
        for segment in segments[:-1]:
            for record in walk(segment, segment.start, segment.end):
                self._remember(segment, record)
        if not segments:
            return 0
        last = segments[-1]
        end = self._intact_end(last, lake_end)
        if end < last.end:
            durable = read_durable(self.folder)
            if durable is not None and end < durable:
                raise CorruptionError(
                    f"journal file '{last.path}' is damaged at position {end}",
                    found=f"records up to position {durable} were acknowledged",
                    fix="restore the file, or move it away to go on without its events",
                )
            os.truncate(last.path, end - last.start)
        return end

    def _intact_end(self, segment: Segment, lake_end: int) -> int:
        position = segment.start
        with segment.path.open("rb") as file:
            while position < segment.end:
                file.seek(position - segment.start)
                record = unpack(file.read(HEADER.size), position)
                if record is None or record.end > segment.end:
                    return position
                # What the lake has needs no second look.
                if record.end > lake_end and not is_intact(file.fileno(), segment, record):
                    return position
                self._remember(segment, record)
                position = record.end
        return position

    def _remember(self, segment: Segment, record: Record) -> None:
        if not record.meta_bytes or record.arrived_us < self._clock_us() - KEY_WINDOW_US:
            return
        with segment.path.open("rb") as file:
            file.seek(record.position + HEADER.size - segment.start)
            key = orjson.loads(file.read(record.meta_bytes))["key"]
        if key:
            self._keys[_key_hash(key)] = record.position


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
