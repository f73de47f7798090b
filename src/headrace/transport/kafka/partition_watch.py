"""Follows the partitions of a stream in one thread: ends, new ones, lost ranges, and whether the broker answers."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.define.kafka_source import KafkaSource
from headrace.errors import CorruptionError, HeadraceError
from headrace.transport.kafka.kafka_clients import Cluster, LastError
from headrace.transport.kafka.kafka_reader import lost_range
from headrace.transport.kafka.partition_numbers import Partition, Partitions, starts
from headrace.transport.kafka.stream_partitions import TopicFinder
from headrace.transport.kafka.topic_queries import Peek, earliest_offsets, is_missing, is_passing, latest_offsets
from headrace.transport.position import START, Position

MOST = 5_000  # entries of a partition


@dataclass
class _Partition:
    offsets: list[int] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)


class Ages:
    """The newest some thousand steps of the ends. Safe for several threads."""

    def __init__(self) -> None:
        self._partitions: dict[int, _Partition] = {}
        self._lock = threading.Lock()

    def note(self, before: Position, ends: Position, now_s: float) -> None:
        """Events between these ends were first seen now. What is noted already keeps its time."""
        with self._lock:
            for number, end in enumerate(ends.offsets):
                if end > before.offset(number):
                    of = self._partitions.setdefault(number, _Partition())
                    if of.offsets and before.offset(number) <= of.offsets[-1]:
                        continue
                    of.offsets.append(before.offset(number))
                    of.times_s.append(now_s)
                    if len(of.offsets) > MOST:
                        del of.offsets[: MOST // 2], of.times_s[: MOST // 2]

    def arrival_s(self, number: int, offset: int) -> float | None:
        """The time when the event at an offset was first seen; None if it is older than all entries."""
        with self._lock:
            of = self._partitions.get(number)
            index = bisect_right(of.offsets, offset) - 1 if of else -1
            return of.times_s[index] if of and index >= 0 else None


EVERY_S = 0.05  # between two looks at the ends
IDLE_S, IDLE_EVERY_S = 2.0, 0.15  # after so long without a new event, looks are rarer
CHECK_S = 2.0  # between two looks at topic ids and first offsets
SAMPLE_S = 30.0  # between two measurements of the size of messages
BEHIND_BYTES = 16 << 20
RETRY_S = 0.5
TRIES = 3  # looks that may fail for a moment, as when the leader of a partition changes
UNKNOWN_BYTES = 100.0  # of a message before one was seen


class PartitionWatch:
    """The known partitions, updated by one thread. Attributes are replaced, never changed: safe for several threads."""

    def __init__(
        self,
        cluster: Cluster,
        source: KafkaSource,
        partitions: Partitions,
        peek: Peek,
        *,
        lake_end: Position,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._numbered = partitions
        self._peek = peek
        self._finder = TopicFinder(cluster.stream, source, partitions)
        self._check_s = min(CHECK_S, source.discovery_ms / 1000)
        self._monotonic_s = monotonic_s
        self._reached = lake_end  # what the lake has, as far as it is known here
        self._errors = LastError()
        self._admin: AdminClient | None = None
        self._next_check = self._next_sample = 0.0
        self._lows = START
        self._failures = 0  # since the last look that succeeded
        self._moved_s = 0.0  # when an end moved last
        self._stopping = threading.Event()
        self._wake = threading.Event()  # a look now
        self._looked = threading.Condition()
        self.looks = 0
        self.ages = Ages()
        self.ends = lake_end
        self.average_bytes = UNKNOWN_BYTES
        self.trouble: HeadraceError | None = None
        self.seen_s: float | None = None  # when the broker answered last, by the real clock
        self.first_look = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kafka {cluster.stream}", daemon=True)
        self._thread.start()

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return self._numbered.all

    def readable_end(self) -> Position:
        """The end of readable events; START while the broker is away. Raises CorruptionError if some are lost."""
        trouble = self.trouble
        if isinstance(trouble, CorruptionError):
            raise trouble
        return self.ends if trouble is None and self.seen_s is not None else START

    def reach(self, position: Position) -> None:
        """The lake has all before a position."""
        self._reached = self._reached.merge(position)

    def check_kept(self, start: Position, end: Position) -> None:
        """Raise CorruptionError if the cluster no longer has all from one position, that of the lake, to another."""
        self.reach(start)
        first = start.merge(starts(self.partitions))
        for number, partition in self._numbered.open.items():
            low = self._lows.offset(number)
            if first.offset(number) < low and first.offset(number) < end.offset(number):
                raise lost_range(self._cluster.stream, partition, first.offset(number), low, end.offset(number))

    def look(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Look at once, and again, until something holds or the time is over; returns whether it holds."""
        deadline = time.monotonic() + timeout_s
        while not until() and not self._stopping.is_set():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            with self._looked:
                self._wake.set()
                self._looked.wait(min(left_s, 1.0))
        return until()

    def check_now(self) -> None:
        """Look for changes of topics with the next look."""
        self._next_check = 0.0
        self._wake.set()

    def close(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._thread.join(15)

    # The thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._look()
                self._failures, pause_s = 0, self._pause_s()
                self.first_look.set()
            except Exception as error:
                if self._admin is not None:
                    with suppress(KafkaException):
                        self._admin.poll(0)  # serves the background errors, which say more
                self._failures += 1
                self._next_check, pause_s = 0.0, RETRY_S / 5
                if self._failures >= TRIES or not is_passing(error):
                    self.trouble = self._cluster.explain(error, self._errors)
                    pause_s = RETRY_S
                    self.first_look.set()
            with self._looked:
                self.looks += 1
                self._looked.notify_all()
            self._wake.wait(pause_s)
            self._wake.clear()
        self._admin = None

    def _pause_s(self) -> float:
        if time.monotonic() - self._moved_s > IDLE_S or self._is_behind():
            return IDLE_EVERY_S
        return EVERY_S

    def _is_behind(self) -> bool:
        """Return whether there is enough to read, so that a newer end is of no use yet."""
        begins = self._reached.merge(starts(self.partitions))
        waiting = sum(max(0, end - begins.offset(number)) for number, end in enumerate(self.ends.offsets))
        return waiting * self.average_bytes > BEHIND_BYTES

    def _look(self) -> None:
        if self._admin is None:
            self._admin = self._cluster.admin(self._errors)
        self._admin.poll(0)
        if time.monotonic() >= self._next_check:
            self._finder.update(self._admin, self._reached, self.ends)
            self._lows = earliest_offsets(self._admin, self.partitions)
            self._next_check = time.monotonic() + self._check_s
        try:
            ends = latest_offsets(self._admin, self.partitions)
        except KafkaException as error:
            if is_missing(error):
                self._next_check = 0.0
            raise
        self._check_ends(ends)
        self._note(ends)
        self.seen_s = time.monotonic()
        self.trouble = None
        self._errors.error = None

    def _check_ends(self, ends: Position) -> None:
        for number, partition in self._numbered.open.items():
            first = max(self._reached.offset(number), partition.start)
            if ends.offset(number) < first:
                raise lost_range(self._cluster.stream, partition, first, ends.offset(number), ends.offset(number))

    def _note(self, ends: Position) -> None:
        now_s = self._monotonic_s()
        if ends != self.ends or self.seen_s is None:
            if time.monotonic() >= self._next_sample:
                self._sample(ends)
            # The first look finds old events too: when they arrived is not known from it.
            if self.seen_s is not None:
                self.ages.note(self.ends, ends, now_s)
            self._moved_s = time.monotonic()
            self.ends = ends

    def _sample(self, ends: Position) -> None:
        """Measure messages near the place that is read next, or near the end."""
        begins = self._reached.merge(starts(self.partitions)).merge(self._lows)
        average = self._peek.average_bytes(self.partitions, begins, ends)
        if average is not None:
            self.average_bytes = average
            self._next_sample = time.monotonic() + SAMPLE_S
