"""Reads ranges of Kafka's partitions in any process.

A range is a span of offsets. Transactions and compaction leave gaps in them, so a range ends at the first message or
end of partition at or past its end, never by a count of messages.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.errors import CorruptionError, HeadraceError
from headrace.name_encoding import shell
from headrace.transport.kafka.kafka_clients import Cluster, LastError
from headrace.transport.kafka.message_frames import make_events
from headrace.transport.kafka.partition_numbers import Partition, starts
from headrace.transport.kafka.topic_queries import latest_offsets
from headrace.transport.position import Position, Range
from headrace.transport.transport_contract import TransportEvents

MOST_MESSAGES = 32_768  # that are made events at once, whole blocks of the parser: the next are fetched meanwhile
CHUNK_BYTES = 4 << 20
WAIT_S = 0.02  # for messages; a shorter batch is returned then
STALLED_S = 20.0  # without a message or an end of partition, the broker is away

_idle: dict[Cluster, list[_Borrowed]] = {}  # connecting takes longer than a small range: workers keep their consumers


class Live(Protocol):
    """The knowledge of the process that holds the stream, without asking the broker each time."""

    @property
    def partitions(self) -> tuple[Partition, ...]: ...

    @property
    def average_bytes(self) -> float: ...

    def readable_end(self) -> Position: ...

    def check_kept(self, start: Position, end: Position) -> None: ...


class KafkaReader:
    """The partitions of a stream. In the process that holds the stream it follows them; pickled, it is as of then."""

    def __init__(self, cluster: Cluster, live: Live | None, partitions: tuple[Partition, ...] = ()) -> None:
        self._cluster = cluster
        self._live = live
        self._partitions = partitions
        self._average = 0.0

    def __getstate__(self) -> dict[str, Any]:
        state = (self._cluster, self._all(), self._average_bytes())
        return dict(zip(("cluster", "partitions", "average"), state, strict=True))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._cluster, self._partitions, self._average = state["cluster"], state["partitions"], state["average"]
        self._live = None

    def _all(self) -> tuple[Partition, ...]:
        return self._live.partitions if self._live else self._partitions

    def _average_bytes(self) -> float:
        return self._live.average_bytes if self._live else self._average

    def end(self) -> Position:
        if self._live:
            return self._live.readable_end()
        errors = LastError()
        try:
            admin = self._cluster.admin(errors)
            return latest_offsets(admin, self._partitions)
        except KafkaException as error:
            raise self._cluster.explain(error, errors) from error

    def bytes_between(self, start: Position, end: Position) -> int:
        first = start.merge(starts(self._all()))
        count = sum(max(0, last - first.offset(number)) for number, last in enumerate(end.offsets))
        return int(count * self._average_bytes())

    def ranges(
        self, start: Position, end: Position, *, target_bytes: int, most_bytes: int | None = None
    ) -> list[Range]:
        if self._live:
            self._live.check_kept(start, end)
        average = max(1.0, self._average_bytes())
        first = start.merge(starts(self._all()))
        # The same share of each partition, so that they reach the newest event together.
        share = 1.0
        if most_bytes is not None:
            share = min(1.0, most_bytes / max(1, self.bytes_between(start, end)))
        step = max(1, int(target_bytes / average))
        ranges: list[Range] = []
        for number, last in enumerate(end.offsets):
            reached, begins = start.offset(number), min(first.offset(number), last)
            stop = last if share == 1.0 else min(last, begins + max(1, int((last - begins) * share)))
            while reached < stop:
                until = min(stop, max(reached, begins) + step)
                ranges.append(Range(number, reached, until))
                reached = until
        return ranges

    def read(self, part: Range, stream_format: str) -> Iterator[TransportEvents]:
        partition = self._all()[part.partition]
        first = max(part.start, partition.start)
        if first >= part.end:
            return
        borrowed = _borrow(self._cluster)
        try:
            reading = _Reading(self._cluster, borrowed, partition, first, part.end)
            with _without_collector():
                for messages in reading.batches():
                    yield make_events(part.partition, messages, stream_format)
        except BaseException:
            borrowed.consumer.close()
            raise
        borrowed.consumer.unassign()
        _idle.setdefault(self._cluster, []).append(borrowed)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Thousands of new messages would start it again and again, in vain: they are no cycles.

    It would take a fifth of the time, and begin as soon as it may: so it waits until the messages are gone.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Borrowed:
    def __init__(self, cluster: Cluster) -> None:
        self.errors = LastError()
        self.consumer = cluster.consumer(self.errors)


def _borrow(cluster: Cluster) -> _Borrowed:
    kept = _idle.get(cluster)
    return kept.pop() if kept else _Borrowed(cluster)


class _Reading:
    """One pass over offsets [first, end) of a partition."""

    def __init__(self, cluster: Cluster, borrowed: _Borrowed, partition: Partition, first: int, end: int) -> None:
        self._cluster, self._partition, self._end = cluster, partition, end
        self._consumer: Consumer = borrowed.consumer
        self._errors = borrowed.errors
        self._next = first  # the first offset that was not read
        self._done = False

    def batches(self) -> Iterator[list[Message]]:
        """The messages, some megabytes at a time."""
        at = TopicPartition(self._partition.topic, self._partition.partition, self._next)
        self._errors.error = None
        self._consumer.assign([at])
        group: list[Message] = []
        size = 0
        while not self._done:
            messages = self._consume()
            if len(messages) == MOST_MESSAGES and not group:
                yield messages
                continue
            group += messages
            size += sum(map(len, messages))
            if group and (self._done or size >= CHUNK_BYTES or len(group) >= MOST_MESSAGES):
                yield group
                group, size = [], 0

    def _consume(self) -> list[Message]:
        """The next messages before the end, at least one unless that is reached."""
        deadline = time.monotonic() + STALLED_S
        while time.monotonic() < deadline:
            most = min(self._end - self._next, MOST_MESSAGES)
            messages: list[Message] = self._consumer.consume(most, WAIT_S)
            if not messages:
                continue
            if any(map(Message.error, messages)):
                messages = self._without_errors(messages)
            if messages:
                self._next = _offset(messages[-1]) + 1
                while messages and _offset(messages[-1]) >= self._end:
                    messages.pop()
                self._done = self._done or self._next >= self._end
            if messages or self._done:
                return messages
        raise self._cluster.explain(TimeoutError(f"no answer within {STALLED_S:.0f} s"), self._errors)

    def _without_errors(self, messages: list[Message]) -> list[Message]:
        good: list[Message] = []
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._done = self._done or _offset(message) >= self._end
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise self._lost()
            elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                raise self._cluster.explain(error, self._errors)
        return good

    def _lost(self) -> HeadraceError:
        at = TopicPartition(self._partition.topic, self._partition.partition)
        try:
            low, high = self._consumer.get_watermark_offsets(at, timeout=10)
        except KafkaException as error:
            return self._cluster.explain(error, self._errors)
        return lost_range(self._cluster.stream, self._partition, self._next, low, high)


def _offset(message: Message) -> int:
    return message.offset() or 0  # None is for messages that were not produced yet


def lost_range(stream: str, partition: Partition, first: int, low: int, high: int) -> CorruptionError:
    """The error for offsets that Kafka no longer has, or never had."""
    if first > high:
        return CorruptionError(
            f"stream '{stream}': {partition} ends before what was read from it",
            found=f"its end at offset {high}",
            expected=f"offset {first} or later",
            fix="it was truncated or recreated; "
            f"`headrace skip {shell(stream)} --to earliest` continues with what it has now",
        )
    return CorruptionError(
        f"stream '{stream}': {partition} no longer has offsets {first} to {low - 1}",
        found=f"its first offset {low}",
        fix="they were deleted before they were read, by the topic's retention; "
        f"`headrace skip {shell(stream)} --to earliest` continues after them",
    )
