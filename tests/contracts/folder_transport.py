"""A second transport, for tests: each request is a file in one of two folders, its partitions. Offsets count events."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from headrace.disk import replace_file, sync
from headrace.errors import CorruptionError, HeadraceError, UnavailableError
from headrace.parse.frames import frame
from headrace.transport.position import START, Position, Range, event_base
from headrace.transport.sent_files import FilePiece, SentFiles
from headrace.transport.transport_contract import Receipt, TransportEvents

PARTITIONS = 2
DAY_US = 24 * 3600 * 1_000_000


@dataclass(frozen=True)
class Request:
    """A file: a line of JSON about the request, then its events. Its first offset is the request's own."""

    path: Path
    start: int
    end: int

    def read(self) -> tuple[dict[str, Any], bytes]:
        head, _, payload = self.path.read_bytes().partition(b"\n")
        about = orjson.loads(head)
        if zlib.crc32(payload) != about["crc"]:
            raise CorruptionError(f"file '{self.path}' is damaged")
        return about, payload


def requests(folder: Path, partition: int) -> list[Request]:
    """Those of a partition, in the order of their offsets."""
    files = sorted((folder / str(partition)).glob("*.request"))
    return [Request(path, *map(int, path.stem.split("-"))) for path in files]


def requests_in(folder: Path, part: Range) -> list[Request]:
    """The requests of a range; raises CorruptionError if one is missing."""
    part_requests = [r for r in requests(folder, part.partition) if part.start <= r.start and r.end <= part.end]
    ends = [part.start, *(request.end for request in part_requests)]
    starts = [*(request.start for request in part_requests), part.end]
    if ends != starts:
        raise CorruptionError(f"folder '{folder}' does not hold all of {part}")
    return part_requests


@dataclass(frozen=True)
class FolderReader:
    """Reads the files in any process."""

    folder: Path

    def end(self) -> Position:
        ends = (max((r.end for r in requests(self.folder, p)), default=0) for p in range(PARTITIONS))
        return Position(tuple(ends))

    def bytes_between(self, start: Position, end: Position) -> int:
        return sum(
            request.path.stat().st_size
            for partition in range(PARTITIONS)
            for request in requests(self.folder, partition)
            if start.offset(partition) <= request.start and request.end <= end.offset(partition)
        )

    def ranges(
        self, start: Position, end: Position, *, target_bytes: int, most_bytes: int | None = None
    ) -> list[Range]:
        ranges = []
        for partition in range(PARTITIONS):
            whole = Range(partition, start.offset(partition), end.offset(partition))
            first, size, total = whole.start, 0, 0
            for request in requests_in(self.folder, whole) if whole.start < whole.end else []:
                total += request.path.stat().st_size
                if most_bytes is not None and total > most_bytes // PARTITIONS and request.start > whole.start:
                    break
                size += request.path.stat().st_size
                if size >= target_bytes or request.end == whole.end:
                    ranges.append(Range(partition, first, request.end))
                    first, size = request.end, 0
                last = request.end
            else:
                continue
            if first < last:
                ranges.append(Range(partition, first, last))
        return ranges

    def read(self, part: Range, stream_format: str) -> Iterator[TransportEvents]:
        for request in requests_in(self.folder, part):
            about, payload = request.read()
            frames = frame(stream_format, payload)
            first = event_base(part.partition) + request.start + 1
            positions = np.arange(first, first + len(frames), dtype=np.int64)
            yield TransportEvents(frames, positions, np.full(len(frames), about["arrived_us"], dtype=np.int64))


class FolderTransport:
    """Requests with a file or a key go to the partition of its hash, the others to the shorter one."""

    name = "folder"

    def __init__(
        self,
        folder: Path,
        *,
        fence: int,
        lake_end: Position = START,
        still_mine: Callable[[], None] = lambda: None,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        for partition in range(PARTITIONS):
            (folder / str(partition)).mkdir(parents=True, exist_ok=True)
        self._folder, self._fence, self._still_mine, self._clock_us = folder, fence, still_mine, clock_us
        self.trouble: HeadraceError | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._keys: dict[str, tuple[Receipt, int]] = {}
        self.sent = SentFiles.read(folder)
        for partition in range(PARTITIONS):
            for request in requests(folder, partition):
                self._note(request.read()[0], Position.at(request.end, partition))
        self.end = self.reader.end().merge(lake_end)

    @property
    def reader(self) -> FolderReader:
        return FolderReader(self._folder)

    @property
    def start(self) -> Position:
        firsts = ([*requests(self._folder, p), None][0] for p in range(PARTITIONS))
        return Position(tuple(self.end.offset(p) if first is None else first.start for p, first in enumerate(firsts)))

    def now_us(self) -> int:
        return self._clock_us()

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
        with self._lock:
            if self._closed:
                raise UnavailableError("the folder takes no more events")
            name = file.name if file else key
            shortest = min(range(PARTITIONS), key=self.end.offset)
            partition = zlib.crc32(name.encode()) % PARTITIONS if name else shortest
            start = self.end.offset(partition)
            end = Position.at(start + 1 + accepted, partition)
            about: dict[str, Any] = {"key": key, "digest": digest, "accepted": accepted, "refused": refused}
            about |= {"crc": zlib.crc32(payload), "arrived_us": self._clock_us(), "file": file and file.as_dict()}
            path = self._folder / str(partition) / f"{start:012d}-{end.offset(partition):012d}.request"
            receipt: Future[Receipt] = Future()
            try:
                replace_file(path, orjson.dumps(about) + b"\n" + payload, f"file '{path}' cannot be written")
                sync(path.parent)
                self._still_mine()
            except HeadraceError as error:
                path.unlink(missing_ok=True)
                receipt.set_exception(error)
                return receipt
            self.end = self.end.merge(end)
            receipt.set_result(self._note(about, end))
            return receipt

    def _note(self, about: dict[str, Any], end: Position) -> Receipt:
        receipt = Receipt(end, about["accepted"], about["refused"], about["digest"])
        if about["key"] is not None:
            self._keys[about["key"]] = receipt, about["arrived_us"]
        if about["file"] is not None:
            self.sent.note(FilePiece.of(about["file"]), about["accepted"], end, about["arrived_us"])
        return receipt

    def recall(self, key: str) -> Receipt | None:
        receipt, arrived_us = self._keys.get(key, (None, 0))
        return receipt if self._clock_us() - arrived_us <= DAY_US else None

    def age_ms(self, position: Position) -> int | None:
        ages = []
        for partition in range(PARTITIONS):
            offset = position.offset(partition)
            if offset < self.end.offset(partition):
                waiting = [r for r in requests(self._folder, partition) if r.end > offset]
                if not waiting or waiting[0].start > offset:
                    return None
                ages.append((self._clock_us() - waiting[0].read()[0]["arrived_us"]) // 1000)
        return max(ages, default=0)

    def lags(self, position: Position) -> None: ...

    def skip(self, to, lake_end: Position, *, dry_run: bool = False) -> list:
        return []

    def mend(self) -> None: ...

    def reclaim(self, lake_end: Position) -> int:
        freed = 0
        for partition in range(PARTITIONS):
            for request in requests(self._folder, partition)[:-1]:  # the last one says where to continue
                old = self._clock_us() - request.read()[0]["arrived_us"] > DAY_US
                if not old or request.end > lake_end.offset(partition):
                    break
                self.sent.write(self._folder, self._fence)
                freed += request.path.stat().st_size
                request.path.unlink()
        return freed

    def close(self) -> None:
        with self._lock:
            self._closed = True
