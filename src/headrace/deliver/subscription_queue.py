"""One named subscription that runs: its members take batches from it, acknowledge them, and vanish."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

import orjson

from headrace.deliver.delivery_status import AT_LEAST_ONCE, SubscriptionStatus, Terms
from headrace.deliver.notifier import Notifier
from headrace.deliver.subscription_source import SourcePage, SubscriptionSource
from headrace.deliver.subscription_state import (
    MOST_BYTES,
    MOST_RECORDS,
    Record,
    RecordFile,
    SubscriptionBatch,
    SubscriptionState,
)
from headrace.errors import ConflictError, HeadraceError, QuestionError

MEMBER_S = 60.0  # a member that polls is one for this long after its last request
Clock = Callable[[], int]  # ms


@dataclass(frozen=True)
class Delivery:
    """A batch for a member. Without a lease there is nothing to acknowledge."""

    lease: str | None
    attempt: int
    timeout_ms: int | None
    cursor: str
    columns: bytes
    lines: tuple[bytes, ...]

    def as_json(self, member: str) -> bytes:
        """As HTTP shows it to a member."""
        lease = f'"{self.lease}"' if self.lease else "null"
        timeout_ms = "null" if self.timeout_ms is None else str(self.timeout_ms)
        head = f'{{"lease":{lease},"attempt":{self.attempt},"timeout_ms":{timeout_ms},"cursor":"{self.cursor}"'
        return (
            head.encode()
            + b',"columns":'
            + self.columns
            + b',"events":['
            + b",".join(self.lines)
            + b'],"member":'
            + orjson.dumps(member)
            + b"}"
        )


class SubscriptionQueue:
    """Safe for any thread. Whatever it has delivered or acknowledged is in its file before it returns."""

    def __init__(
        self,
        terms: Terms,
        state: SubscriptionState,
        file: RecordFile,
        source_of: Callable[[Terms], SubscriptionSource],
        clock: Clock,
    ) -> None:
        self.terms = terms
        self._state = state
        self._file = file
        self._source_of = source_of
        self._clock = clock
        self._lock = threading.Lock()  # of the state and of the order of records
        self._fetching = threading.Lock()  # one thread reads what comes next
        self._source: SubscriptionSource | None = None
        self._members: dict[str, float] = {}  # when each was there last; a connected one is there for ever
        self._dropped = False
        self.notifier = Notifier()  # notified when a member may get something: news, a batch that came back, credit

    @property
    def source(self) -> SubscriptionSource:
        """What it reads; raises an error while that does not exist."""
        source = self._source_of(self.terms)
        if source is not self._source:
            self._source = source
            source.notifier.forward_to(self.notifier)
        return source

    # Members

    def join(self, member: str) -> None:
        """A member is connected."""
        with self._lock:
            self._members[member] = float("inf")

    def leave(self, member: str) -> None:
        """A member has disconnected: what it holds goes to others at once."""
        with self._lock:
            self._members.pop(member, None)
            if self._dropped:
                return
            now_ms = self._clock()
            for batch in list(self._state.batches.values()):
                if batch.member == member and batch.deadline_ms > now_ms:
                    self._write(self._state.give_back(batch))
        self.notifier.notify()

    def take(self, member: str, limit: int, credit: int) -> Delivery | None:
        """The next batch for a member; None if there is none now, or it holds as many events as it may."""
        source = self.source
        with self._lock:
            self._check_exists()
            now_ms = self._clock()
            if self._members.get(member) != float("inf"):
                self._members[member] = time.monotonic()
            room = credit - self._state.open_events_of(member, now_ms)
            if room <= 0:
                return None
            batch = self._state.returned(now_ms)
            if batch is not None:
                self._write(self._state.deliver_again(batch, member, now_ms))
                batch = self._state.batches[batch.number]
        if batch is not None:
            return self._deliver(batch, self._again(source, batch))
        return self._take_next(source, member, min(limit, room))

    def nothing(self) -> Delivery:
        """What is delivered when there is nothing."""
        return Delivery(None, 0, None, self._state.cursor, b"[]", ())

    def _take_next(self, source: SubscriptionSource, member: str, limit: int) -> Delivery | None:
        state = self._state
        with self._fetching:
            page = source.next(state.cursor, limit)
            while not page.lines and page.cursor != state.cursor:
                with self._lock:
                    self._check_exists()
                    self._write(state.skip(page.cursor))
                page = source.next(state.cursor, limit)
            if not page.lines:
                return None
            with self._lock:
                self._check_exists()
                content = None if source.repeats else [line.decode() for line in page.lines]
                number = state.next_number
                self._write(state.deliver(page.cursor, len(page.lines), member, self._clock(), content))
                batch = state.batches.get(number)
        if batch is None:  # at most once: it must be on disk that it was delivered before it is
            self._file.sync()
            return Delivery(None, 1, None, page.cursor, page.columns, page.lines)
        return self._deliver(batch, page)

    def _deliver(self, batch: SubscriptionBatch, page: SourcePage) -> Delivery:
        return Delivery(batch.lease, batch.attempt, self._state.timeout_ms, batch.until, page.columns, page.lines)

    def _again(self, source: SubscriptionSource, batch: SubscriptionBatch) -> SourcePage:
        """The events of a batch that are not acknowledged."""
        page = source.again(batch)
        if not batch.acknowledged:
            return page
        lines = zip(source.ids(page.lines), page.lines, strict=True)
        return SourcePage(
            tuple(line for ident, line in lines if ident not in batch.acknowledged), page.cursor, page.columns
        )

    # Acknowledgements

    def acknowledge(self, leases: Iterable[str], events: Iterable[str] | None = None) -> int:
        """Batches, or some events of one, were processed. Returns how many events that were not acknowledged yet.

        It may come late: what is acknowledged is not delivered again, whoever holds it now.
        """
        self._check_guarantee()
        names = list(leases)
        ids = None if events is None else list(events)
        if ids is not None:
            if len(names) != 1:
                raise QuestionError("events are acknowledged with their own lease", expected="one lease")
            self._check_ids(names[0], ids)
        with self._lock:
            self._check_exists()
            before = self._state.acknowledged
            batches = [self._state.find(lease) for lease in names]
            for batch in dict.fromkeys(batch for batch in batches if batch):
                self._write(self._state.acknowledge(batch, ids, self._clock()))
            count = self._state.acknowledged - before
        self._file.sync()
        self.notifier.notify()
        return count

    def give_back(self, leases: Iterable[str]) -> int:
        """A member will not process these batches. Returns how many events go to others now."""
        self._check_guarantee()
        count = 0
        with self._lock:
            self._check_exists()
            now_ms = self._clock()
            for lease in leases:
                batch = self._state.holds(lease)
                if batch is not None and batch.deadline_ms > now_ms:
                    count += batch.open_events
                    self._write(self._state.give_back(batch))
        self.notifier.notify()
        return count

    def _check_ids(self, lease: str, ids: list[str]) -> None:
        """Only events of the batch: others would count for those that are not processed."""
        batch = self._state.find(lease)
        if batch is None:
            return
        source = self.source
        unknown = sorted(set(ids) - set(source.ids(source.again(batch).lines)))
        if unknown:
            raise QuestionError(
                f"subscription '{self.terms.name}': batch {lease} has no event {unknown[0][:80]}",
                fix="acknowledge events by the cursors that the batch shows",
            )

    # State

    def wait_ms(self) -> int | None:
        """After which time a batch comes back by itself, if one does."""
        with self._lock:
            now_ms = self._clock()
            deadline_ms = self._state.next_deadline(now_ms)
        return None if deadline_ms is None else max(1, deadline_ms - now_ms)

    def status(self) -> SubscriptionStatus:
        """How far it is."""
        with self._lock:  # the cursor and what is in flight belong together
            state = self._state
            since = time.monotonic() - MEMBER_S
            cursor = state.cursor
            status = SubscriptionStatus(
                **vars(self.terms),
                cursor=cursor,
                lag=None,
                in_flight=state.in_flight,
                members=sum(1 for at in self._members.values() if at >= since),
                delivered=state.delivered,
                redelivered=state.redelivered,
                acknowledged=state.acknowledged,
                error=None,
            )
        try:
            lag = self.source.lag(cursor)
        except HeadraceError as error:
            return replace(status, error=str(error))
        return replace(status, lag=None if lag is None else lag + status.in_flight)

    def drop(self) -> None:
        """Forget it."""
        with self._fetching, self._lock:
            self._dropped = True
            self._file.delete()
        with suppress(HeadraceError):  # what it reads may be gone before
            self.source.drop()
        self.notifier.notify()

    def close(self) -> None:
        """The server stops; nothing is forgotten."""
        with self._lock:
            self._dropped = True
            self._file.close()
        self.notifier.notify()

    def _check_exists(self) -> None:
        if self._dropped:
            raise ConflictError(f"subscription '{self.terms.name}' was dropped, or the server stops")

    def _check_guarantee(self) -> None:
        if self.terms.guarantee != AT_LEAST_ONCE:
            raise QuestionError(
                f"subscription '{self.terms.name}' delivers {self.terms.guarantee}: nothing is acknowledged",
                fix=f"create one with the guarantee {AT_LEAST_ONCE}",
            )

    def _write(self, record: Record) -> None:
        """First the file, then the state: what could not be written has not happened."""
        self._file.append(record)
        self._state.apply(record)
        if self._file.records > MOST_RECORDS or self._file.bytes > MOST_BYTES:
            self._file.replace([header(self.terms), self._state.snapshot()])


def header(terms: Terms) -> Record:
    """The first record of a file."""
    return {"format": 1, "terms": terms.as_dict()}
