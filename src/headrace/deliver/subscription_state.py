"""The state of one named subscription, as a fold over the records of its file, each with a checksum."""

from __future__ import annotations

import os
import secrets
import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from headrace.disk import disk_full, is_disk_full, refuse_newer, sync
from headrace.errors import CorruptionError, QuestionError, UnavailableError

Record = Mapping[str, Any]


@dataclass(frozen=True)
class SubscriptionBatch:
    """Events that were delivered and are not all acknowledged. `deadline_ms` 0: nobody holds it."""

    number: int
    token: str  # so that a lease of a batch that was lost with the power is not taken for one of a later batch
    after: str
    until: str
    events: int
    attempt: int
    member: str
    deadline_ms: int
    acknowledged: frozenset[str] = frozenset()  # cursors of events, if only some are
    content: tuple[str, ...] | None = None  # the events as JSON, if they cannot be read again

    @property
    def lease(self) -> str:
        """The name of this delivery for acknowledgements."""
        return f"{self.number}.{self.attempt}.{self.token}"

    @property
    def open_events(self) -> int:
        """How many of its events are not acknowledged."""
        return self.events - len(self.acknowledged)


@dataclass
class SubscriptionState:
    """What is outstanding; `cursor` is behind the last event that was delivered for the first time."""

    cursor: str
    timeout_ms: int
    keeps: bool  # whether batches are outstanding until they are acknowledged
    next_number: int = 1
    batches: dict[int, SubscriptionBatch] = field(default_factory=dict)
    delivered: int = 0  # events, for the first time
    redelivered: int = 0
    acknowledged: int = 0

    # Questions

    def returned(self, now_ms: int) -> SubscriptionBatch | None:
        """The oldest batch that nobody holds."""
        return next((batch for batch in self.batches.values() if batch.deadline_ms <= now_ms), None)

    def open_events_of(self, member: str, now_ms: int) -> int:
        """How many events a member holds."""
        return sum(b.open_events for b in self.batches.values() if b.member == member and b.deadline_ms > now_ms)

    @property
    def in_flight(self) -> int:
        """How many events were delivered and are not acknowledged."""
        return sum(batch.open_events for batch in self.batches.values())

    def next_deadline(self, now_ms: int) -> int | None:
        """When the next batch comes back by itself."""
        return min((b.deadline_ms for b in self.batches.values() if b.deadline_ms > now_ms), default=None)

    def find(self, lease: str) -> SubscriptionBatch | None:
        """The batch of a lease; None if all of it is acknowledged, or it was lost before it was on disk."""
        number, _, token = _read_lease(lease)
        batch = self.batches.get(number)
        return batch if batch and batch.token == token else None

    def holds(self, lease: str) -> SubscriptionBatch | None:
        """The batch of a lease, if nobody else has got it since."""
        batch = self.find(lease)
        return batch if batch and batch.lease == lease else None

    # Records: each of these is what happened, for `apply` and for the file

    def deliver(
        self, until: str, events: int, member: str, now_ms: int, content: Collection[str] | None = None
    ) -> Record:
        """The next events, up to a cursor, go to a member."""
        record: dict[str, Any] = {"deliver": self.next_number, "until": until, "events": events}
        if self.keeps:
            record |= {"token": secrets.token_hex(4), "member": member, "deadline": now_ms + self.timeout_ms}
            if content is not None:
                record["content"] = list(content)
        return record

    def skip(self, until: str) -> Record:
        """There is no event to deliver up to a cursor."""
        return {"skip": until}

    def deliver_again(self, batch: SubscriptionBatch, member: str, now_ms: int) -> Record:
        """A batch that nobody holds goes to a member."""
        return {"again": batch.number, "member": member, "deadline": now_ms + self.timeout_ms}

    def acknowledge(self, batch: SubscriptionBatch, events: Iterable[str] | None, now_ms: int) -> Record:
        """A batch, or these of its events, were processed; the others are held for another time-out."""
        if events is None:
            return {"ack": batch.number}
        return {"ack": batch.number, "events": sorted(set(events)), "deadline": now_ms + self.timeout_ms}

    def give_back(self, batch: SubscriptionBatch) -> Record:
        """A member will not process a batch."""
        return {"back": batch.number}

    def apply(self, record: Record) -> None:
        """Do what a record says."""
        match record:
            case {"deliver": number}:
                self._deliver(int(number), record)
            case {"skip": until}:
                self.cursor = until
            case {"again": number}:
                batch = self.batches.pop(number)  # to the end: others that nobody holds come first
                self.redelivered += batch.open_events
                self.batches[number] = replace(
                    batch, attempt=batch.attempt + 1, member=record["member"], deadline_ms=record["deadline"]
                )
            case {"ack": number}:
                self._acknowledge(int(number), record)
            case {"back": number}:
                self.batches[number] = replace(self.batches[number], deadline_ms=0)

    def _deliver(self, number: int, record: Record) -> None:
        after, self.cursor = self.cursor, record["until"]
        self.next_number = number + 1
        self.delivered += record["events"]
        if self.keeps:
            self.batches[number] = SubscriptionBatch(
                number=number,
                token=record["token"],
                after=after,
                until=self.cursor,
                events=record["events"],
                attempt=1,
                member=record["member"],
                deadline_ms=record["deadline"],
                content=tuple(record["content"]) if "content" in record else None,
            )

    def _acknowledge(self, number: int, record: Record) -> None:
        batch = self.batches[number]
        if "events" in record:
            acknowledged = batch.acknowledged | set(record["events"])
            self.acknowledged += len(acknowledged) - len(batch.acknowledged)
            deadline_ms = record["deadline"] if batch.deadline_ms else 0
            batch = replace(batch, acknowledged=acknowledged, deadline_ms=deadline_ms)
            self.batches[number] = batch
        else:
            self.acknowledged += batch.open_events
            batch = replace(batch, events=len(batch.acknowledged))
        if not batch.open_events:
            del self.batches[number]

    # As one record, in place of all before it

    def snapshot(self) -> Record:
        """The whole state."""
        batches = [{**vars(batch), "acknowledged": sorted(batch.acknowledged)} for batch in self.batches.values()]
        return {
            "state": {
                "cursor": self.cursor,
                "next": self.next_number,
                "delivered": self.delivered,
                "redelivered": self.redelivered,
                "acknowledged": self.acknowledged,
                "batches": batches,
            }
        }

    def restore(self, record: Record) -> None:
        """Become the state of a snapshot."""
        content = record["state"]
        self.cursor, self.next_number = content["cursor"], content["next"]
        self.delivered, self.redelivered = content["delivered"], content["redelivered"]
        self.acknowledged = content["acknowledged"]
        self.batches = {}
        for each in content["batches"]:
            lines = each["content"]
            batch = SubscriptionBatch(**{**each, "acknowledged": frozenset(each["acknowledged"])})
            self.batches[batch.number] = replace(batch, content=None if lines is None else tuple(lines))

    def start_again(self, now_ms: int) -> None:
        """After a restart: no deadline lies further ahead than a time-out, whatever the clock was before."""
        latest_ms = now_ms + self.timeout_ms
        for number, batch in self.batches.items():
            self.batches[number] = replace(batch, deadline_ms=min(batch.deadline_ms, latest_ms))


def _read_lease(lease: str) -> tuple[int, int, str]:
    parts = lease.split(".")
    if len(parts) != 3 or not (parts[0].isdecimal() and parts[1].isdecimal()) or len(lease) > 60:
        raise QuestionError(
            "this is not a lease of a subscription", found=repr(lease)[:80], expected="the lease of a batch"
        )
    return int(parts[0]), int(parts[1]), parts[2]


FORMAT = 1
MOST_RECORDS, MOST_BYTES = 5_000, 32 << 20  # then the file is replaced


class RecordFile:
    """Appends records. `sync` makes durable what was appended before it; several threads share one sync."""

    def __init__(self, path: Path, still_mine: Callable[[], None]) -> None:
        self._path = path
        self._still_mine = still_mine  # raises if another process has the workspace
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._fd = -1
        self._appended = self._synced = 0  # records since the process began
        self.records = 0  # in the file
        self.bytes = 0  # that were appended to it

    @staticmethod
    def read(path: Path) -> list[Record]:
        """The records of a file, the terms first. An incomplete end is left out."""
        lines = path.read_bytes().split(b"\n")
        records = []
        for number, line in enumerate(lines[:-1]):
            crc, _, content = line.partition(b" ")
            if crc != _crc(content):
                if not any(lines[number + 1 : -1]):
                    break  # the last line: it was being written
                raise CorruptionError(
                    f"subscription file '{path}' is damaged",
                    found=f"line {number + 1} does not match its checksum",
                    fix="nothing was changed; drop the subscription and create it again, or restore the file",
                )
            records.append(orjson.loads(content))
        if len(records) < 2 or "terms" not in records[0] or "state" not in records[1]:
            raise CorruptionError(
                f"subscription file '{path}' is damaged",
                found="no terms or no state at its begin",
                fix="nothing was changed; drop the subscription and create it again, or restore the file",
            )
        refuse_newer(f"subscription file '{path}'", int(records[0].get("format", FORMAT)), FORMAT)
        return records

    def replace(self, records: Iterable[Record]) -> None:
        """Make these the only records; durable when this returns."""
        with self._syncing, self._lock:
            self._still_mine()
            draft = self._path.with_suffix(".draft")
            lines = [_line(record) for record in records]
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with draft.open("wb") as file:
                    file.write(b"".join(lines))
                    file.flush()
                    os.fsync(file.fileno())
                fd = os.open(draft, os.O_WRONLY | os.O_APPEND)
                draft.replace(self._path)
                sync(self._path.parent)
            except OSError as error:
                raise self._unwritten(error) from error
            if self._fd >= 0:
                os.close(self._fd)
            self._fd, self.records, self.bytes, self._synced = fd, len(lines), 0, self._appended

    def append(self, record: Record) -> None:
        """Add a record; it survives the end of the process, and after `sync` a loss of power."""
        line = _line(record)
        with self._lock:
            start = os.fstat(self._fd).st_size
            try:
                written = os.write(self._fd, line)
                if written != len(line):
                    raise OSError(28, "No space left on device")
            except OSError as error:
                os.ftruncate(self._fd, start)
                raise self._unwritten(error) from error
            self._appended += 1
            self.records += 1
            self.bytes += len(line)

    def sync(self) -> None:
        """Return when all records that were appended before are durable, and this process may still write them."""
        appended_before = self._appended
        with self._syncing:
            if self._synced < appended_before:
                appended = self._appended
                try:
                    os.fdatasync(self._fd)
                except OSError as error:
                    raise self._unwritten(error) from error
                self._synced = appended
        self._still_mine()

    def close(self) -> None:
        """Write no more."""
        with self._syncing, self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def delete(self) -> None:
        """Remove the file."""
        self.close()
        self._path.unlink(missing_ok=True)
        sync(self._path.parent)

    def _unwritten(self, error: OSError) -> Exception:
        what = f"the subscription '{self._path.stem}' cannot be written"
        if is_disk_full(error):
            return disk_full(what, self._path.parent)
        return UnavailableError(f"{what}: {error.strerror or error}", fix="nothing was delivered or acknowledged")


def _crc(content: bytes) -> bytes:
    return f"{zlib.crc32(content):08x}".encode()


def _line(record: Record | dict[str, Any]) -> bytes:
    content = orjson.dumps(record)
    return _crc(content) + b" " + content + b"\n"
