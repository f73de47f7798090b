"""The embedded transport: requests, durable before they are acknowledged, at positions used once."""

from __future__ import annotations

import queue
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from headrace.disk import disk_full, is_disk_full, write_format
from headrace.errors import SEND_AGAIN, FencedError, HeadraceError, UnavailableError, UsageError
from headrace.faults import fault_point
from headrace.name_encoding import decode_name
from headrace.transport.journal.idempotency_keys import Keys
from headrace.transport.journal.journal_reader import JournalReader
from headrace.transport.journal.journal_records import FORMAT, HEADER, JournalRecord, Segment, check_format, damaged
from headrace.transport.journal.journal_recovery import recover, visit_records
from headrace.transport.journal.segments import NewRecord, Segments
from headrace.transport.position import START, Position
from headrace.transport.sent_files import FilePiece, SentFiles
from headrace.transport.transport_contract import Receipt, Skipped

if TYPE_CHECKING:
    from headrace.define.kafka_source import Start

# Of a journal's folder: segments and their names, the durable end, the files that were sent. Format 2 has records with
# another checksum; those of format 1 stay as they are.
SEGMENT_BYTES = 256 << 20
MOST_GROUP = 16 << 20  # bytes of the requests that are written at once
AGE_STEP_S = 0.005  # groups that arrive closer together than this share an entry of `_Ages`
MOST_AGES = 20_000


@dataclass(frozen=True)
class _Request:
    record: NewRecord
    arrived_s: float  # the arrival by the monotonic clock
    key: str | None
    accepted: int
    refused: list[dict[str, object]]
    digest: str
    file: FilePiece | None
    receipt: Future[Receipt]


class _Command(Enum):
    """An entry in the queue of the writing thread that is not a request."""

    MEND = "mend"
    STOP = "stop"


class Journal:
    """The journal of one stream: a Transport of one partition, whose offsets count bytes.

    One thread writes; a group of waiting requests shares one fsync.

    `still_mine` raises when another process has taken over the workspace. It is called after the
    fsync and before the acknowledgement. The other process reads the journal after it has taken the lease,
    so it reads every record that was acknowledged.

    The arrival is the time of the wall clock, even if that was set back: nothing depends on its order. Ages and
    the window of keys use the monotonic clock as far as possible.
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
        self._clock_us = clock_us
        self._monotonic_s = monotonic_s
        self.keys = Keys(clock_us, monotonic_s)
        self.sent = SentFiles.read(folder)
        self._ages = _Ages()
        self._failure: HeadraceError | None = None
        self._closing = threading.Lock()  # held while a request is queued, so that none is queued after STOP
        self._closed = False
        self._group_bytes = 0  # of the group that was written last
        self.trouble: HeadraceError | None = None  # why the last write failed, until one succeeds
        # A journal that was lost continues at the end of the lake: a position is never used twice.
        end = max(recover(folder, lake_end.offset(), self._note_old), lake_end.offset())
        self._segments = Segments(folder, end, fence=fence, still_mine=still_mine, segment_bytes=segment_bytes)
        self._queue: queue.SimpleQueue[_Request | _Command] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_loop, name=f"journal {folder.name}", daemon=True)
        self._thread.start()

    @property
    def end(self) -> Position:
        """The end of what is durable."""
        return Position.at(self._segments.end)

    @property
    def reader(self) -> JournalReader:
        """The reader for other processes."""
        return JournalReader(self.folder)

    # Accepting requests

    def submit(
        self,
        payload: bytes | memoryview,
        accepted: int,
        refused: list[dict[str, object]],
        *,
        key: str | None = None,
        digest: str = "",
        file: FilePiece | None = None,
    ) -> Future[Receipt]:
        """Queue one request of NDJSON lines; the future is done when it is on disk, with the mark of its file."""
        if self._failure:
            raise self._failure
        fields: dict[str, object] = {"key": key, "digest": digest, "accepted": accepted, "refused": refused}
        if file:
            fields["file"] = file.as_dict()
        meta = orjson.dumps(fields) if key or file else b""
        receipt: Future[Receipt] = Future()
        record = NewRecord(meta, payload, self._clock_us())
        request = _Request(record, self._monotonic_s(), key or None, accepted, refused, digest, file, receipt)
        with self._closing:
            if self._closed:
                raise UnavailableError(
                    f"stream '{decode_name(self.folder.name)}' accepts no more events: it was dropped, or the server "
                    "is stopping",
                    fix=SEND_AGAIN,
                )
            self._queue.put(request)
        return receipt

    def recall(self, key: str) -> Receipt | None:
        """The receipt of an earlier request with this idempotency key, if it arrived within a day."""
        position = self.keys.find(key)
        entry = self._segments.read_record(position) if position is not None else None
        if entry is None:
            return None
        record, meta = entry
        fields = orjson.loads(meta)
        if fields["key"] != key:
            return None
        return Receipt(Position.at(record.end), fields["accepted"], fields["refused"], fields["digest"])

    def now_us(self) -> int:
        """The clock that arrivals are read from."""
        return self._clock_us()

    def age_ms(self, position: Position) -> int | None:
        """The age of the record at this position; 0 if all lies before it; None if no clock knows it."""
        offset = position.offset()
        if offset >= self._segments.end:
            return 0
        arrival_s = self._ages.arrival_s(offset)
        if arrival_s is not None:
            return int((self._monotonic_s() - arrival_s) * 1000)
        entry = self._segments.read_record(offset)
        age_ms = (self._clock_us() - entry[0].arrived_us) // 1000 if entry else -1
        return age_ms if age_ms >= 0 else None

    def reclaim(self, lake_end: Position) -> int:
        """Delete the segments that the lake has on disk and whose keys have expired; returns how many bytes.

        The segment that is being written stays, so the end of the journal is known even if all others are deleted.
        """
        limit, size = min(lake_end.offset(), self.keys.forgotten_to()), 0
        for segment in self._segments.complete_before(limit):
            self.sent.write(self.folder, self._fence)  # the marks of sent files must outlive their records
            fault_point("upkeep.before_reclaim")
            size += segment.path.stat().st_size
            segment.path.unlink()
        return size

    @property
    def start(self) -> Position:
        """The first position that is still stored: earlier events are in the lake only."""
        return Position.at(self._segments.start)

    def lags(self, position: Position) -> None:
        """None: a journal has no topics."""

    def skip(self, to: Start, lake_end: Position, *, dry_run: bool = False) -> list[Skipped]:
        """Never: a journal loses nothing, so that nothing is left out."""
        raise UsageError(
            "only a stream in Kafka has offsets to skip", expected="a stream WITH (connector = 'kafka', …)"
        )

    def mend(self) -> None:
        """Check whether a disk that was full accepts writes again, and whether the durable end can be read."""
        self._queue.put(_Command.MEND)

    def close(self) -> None:
        """Write the queued requests, then stop."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._queue.put(_Command.STOP)
        self._thread.join()
        self._segments.close()

    # The writing thread

    def _write_loop(self) -> None:
        while (item := self._queue.get()) is not _Command.STOP:
            if isinstance(item, _Command):
                self._mend()
                continue
            group = self._gather(item)
            try:
                if self._failure:
                    raise self._failure
                self._write_group(group)
            except Exception as error:
                self._refuse(error, group)

    def _gather(self, first: _Request) -> list[_Request]:
        """The requests that are queued, up to the size of one write."""
        group, size = [first], len(first.record.payload)
        while size < MOST_GROUP:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
            if isinstance(item, _Command):
                self._queue.put(item)  # after this group
                break
            group.append(item)
            size += len(item.record.payload)
        return group

    def _write_group(self, group: list[_Request]) -> None:
        self._group_bytes = sum(len(request.record.payload) for request in group)
        start = self._segments.end
        ends = self._segments.append([request.record for request in group])
        # The end moves last: a thread that reads it then finds the ages, keys and files of all records before it.
        self._ages.note(start, group[0].arrived_s)
        for request, position, end in zip(group, [start, *ends], ends, strict=False):
            self.keys.note(request.key, position, end, request.record.arrived_us)
            if request.file:
                self.sent.note(request.file, request.accepted, Position.at(end), request.record.arrived_us)
        self._segments.advance(ends[-1])
        self.trouble = None
        for request, end in zip(group, ends, strict=True):
            request.receipt.set_result(Receipt(Position.at(end), request.accepted, request.refused, request.digest))

    def _refuse(self, error: Exception, group: list[_Request]) -> None:
        """Refuse these requests. What they left in the file is cut off: now, or before the next write."""
        outcome = "nothing of this request was stored"
        if not isinstance(error, HeadraceError):
            try:
                self._segments.cut_off()
            except FencedError as fenced:
                error = fenced
            except OSError:
                outcome = "part of this request may be on disk, so send it again under the same Idempotency-Key"
        self.trouble = self._explain(error, outcome)
        if isinstance(error, HeadraceError):
            self._failure = error
        for request in group:
            request.receipt.set_exception(self.trouble)

    def _explain(self, error: Exception, outcome: str) -> HeadraceError:
        if isinstance(error, HeadraceError):
            return error
        if is_disk_full(error):
            fix = f"{outcome}; free space there and send it again"
            return disk_full(f"stream '{decode_name(self.folder.name)}' cannot accept events", self.folder, fix)
        return UnavailableError(
            f"journal '{self.folder}' cannot be written: {error}", fix=f"{outcome}; try again when that is fixed"
        )

    def _mend(self) -> None:
        try:
            if self.trouble is not None and self._failure is None:
                self._segments.reserve(max(self._group_bytes, 1 << 16))
                self.trouble = None
            self._segments.cut_off()
            self._segments.repair_durable()
        except (OSError, FencedError) as error:
            self.trouble = self._explain(error, "nothing is lost")
            with suppress(OSError, FencedError):
                self._segments.cut_off()

    def _note_old(self, segment: Segment, record: JournalRecord) -> None:
        key = _note_sent(self.sent, segment, record)
        self.keys.note_old(key, record.position, record.end, record.arrived_us)


class _Ages:
    """The times when this process accepted the newest some thousand groups, by the monotonic clock. Thread-safe."""

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._times_s: list[float] = []
        self._lock = threading.Lock()

    def note(self, position: int, arrival_s: float) -> None:
        """Store the arrival of the group that begins at this position, after all others."""
        with self._lock:
            if self._times_s and arrival_s - self._times_s[-1] < AGE_STEP_S:
                return
            self._positions.append(position)
            self._times_s.append(arrival_s)
            if len(self._positions) > MOST_AGES:
                del self._positions[: MOST_AGES // 2], self._times_s[: MOST_AGES // 2]

    def arrival_s(self, position: int) -> float | None:
        """The arrival of the record at a position, or a little earlier; None if it is older than all entries."""
        with self._lock:
            index = bisect_right(self._positions, position) - 1
            return self._times_s[index] if index >= 0 else None


def read_sent(folder: Path) -> SentFiles:
    """The files that were sent, from a journal that no process writes."""
    check_format(folder)
    sent = SentFiles.read(folder)
    visit_records(folder, lambda segment, record: _note_sent(sent, segment, record))
    return sent


def _note_sent(sent: SentFiles, segment: Segment, record: JournalRecord) -> str | None:
    """Note the piece of a file that a record holds; returns the key of the record."""
    if not record.meta_bytes:
        return None
    with segment.path.open("rb") as file:
        file.seek(record.position + HEADER.size - segment.start)
        meta = file.read(record.meta_bytes)
    try:
        fields = orjson.loads(meta)
        if "file" in fields:
            sent.note(FilePiece.of(fields["file"]), fields["accepted"], Position.at(record.end), record.arrived_us)
        key: str | None = fields["key"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise damaged(segment, record.position) from error
    return key
