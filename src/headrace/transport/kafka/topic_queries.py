"""Asks a Kafka cluster for topics, for offsets of their partitions, and for single messages, in few requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from headrace.transport.kafka.kafka_clients import MISSING, Cluster, LastError
from headrace.transport.kafka.partition_numbers import Partition
from headrace.transport.position import Position

TIMEOUT_S = 5.0
_CHANGING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
)
EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class KafkaTopic:
    """A topic as the cluster has it; a topic that is recreated under its name has another id."""

    name: str
    id: str
    partitions: int


def list_topics(admin: AdminClient) -> list[str]:
    """The names of all topics but Kafka's own."""
    return sorted(name for name in admin.list_topics(timeout=TIMEOUT_S).topics if not name.startswith("__"))


def find_topics(admin: AdminClient, names: Sequence[str]) -> dict[str, KafkaTopic]:
    """The topics of these names that exist."""
    topics: dict[str, KafkaTopic] = {}
    if not names:
        return topics
    for name, future in admin.describe_topics(TopicCollection(list(names)), request_timeout=TIMEOUT_S).items():
        try:
            description = future.result(TIMEOUT_S + 1)
        except KafkaException as error:
            if error.args[0].code() not in MISSING:
                raise
        else:
            topics[name] = KafkaTopic(name, str(description.topic_id), len(description.partitions))
    return topics


def list_offsets(admin: AdminClient, at: Mapping[tuple[str, int], OffsetSpec]) -> dict[tuple[str, int], int]:
    """An offset for each (topic, partition); the latest is the end of what is committed."""
    if not at:
        return {}
    specs = {TopicPartition(*each): spec for each, spec in at.items()}
    futures = admin.list_offsets(specs, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT_S)
    return {(each.topic, each.partition): future.result(TIMEOUT_S + 1).offset for each, future in futures.items()}


def at_time(time_ms: int) -> OffsetSpec:
    """The offset of the first message of this time or later; -1 if there is none."""
    spec: OffsetSpec = OffsetSpec.for_timestamp(time_ms)
    return spec


def latest_offsets(admin: AdminClient, partitions: Iterable[Partition]) -> Position:
    """The end of each partition: committed messages lie before it. That of one whose topic is gone is kept."""
    return _offsets(admin, tuple(partitions), LATEST)


def earliest_offsets(admin: AdminClient, partitions: Iterable[Partition]) -> Position:
    """The first offset that each partition still has."""
    return _offsets(admin, tuple(partitions), EARLIEST)


def _offsets(admin: AdminClient, partitions: tuple[Partition, ...], spec: OffsetSpec) -> Position:
    offsets = list_offsets(admin, {(p.topic, p.partition): spec for p in partitions if p.ended is None})
    return Position(tuple(offsets[p.topic, p.partition] if p.ended is None else p.ended for p in partitions))


def is_missing(error: KafkaException) -> bool:
    """Return whether a topic or partition does not exist (any more)."""
    cause = error.args[0] if error.args else None
    return isinstance(cause, KafkaError) and cause.code() in MISSING


def is_passing(error: Exception) -> bool:
    """Return whether the cluster is changing, so that the same request succeeds in a moment."""
    cause = error.args[0] if isinstance(error, KafkaException) and error.args else None
    return isinstance(cause, KafkaError) and cause.code() in _CHANGING


PEEK_TIMEOUT_S = 2.0
SAMPLE = 200  # messages


class Peek:
    """One consumer, used by one thread at a time; the last answers are kept."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._errors = LastError()
        self._consumer: Consumer | None = None
        self._lock = threading.Lock()
        self._times_ms: dict[tuple[str, int], tuple[int, int]] = {}  # offset, and the time of the message there

    def timestamp_ms(self, partition: Partition, offset: int) -> int | None:
        """The time of the first message at or after an offset; None if that is not known in time."""
        at = partition.topic, partition.partition
        with self._lock:
            kept = self._times_ms.get(at)
            if kept is not None and kept[0] == offset:
                return kept[1]
            messages = self._read(partition, offset, 1)
            if not messages:
                return None
            self._times_ms[at] = offset, messages[0].timestamp()[1]
            return self._times_ms[at][1]

    def average_bytes(self, partitions: Sequence[Partition], begins: Position, ends: Position) -> float | None:
        """The average size of some messages of the partition with the most of them; None if there are none."""
        spans = {n: end - begins.offset(n) for n, end in enumerate(ends.offsets) if partitions[n].ended is None}
        if not spans:
            return None
        number = max(spans, key=lambda n: spans[n])
        # Beyond the place that is read next too: messages at the end when all is read.
        first = begins.offset(number) if spans[number] > 0 else max(0, ends.offset(number) - SAMPLE)
        with self._lock:
            messages = self._read(partitions[number], first, min(SAMPLE, ends.offset(number) - first))
        return max(1.0, sum(map(len, messages)) / len(messages)) if messages else None

    def _read(self, partition: Partition, offset: int, most: int) -> list[Message]:
        if most <= 0:
            return []
        if self._consumer is None:
            small = {"max.partition.fetch.bytes": 1 << 16, "queued.max.messages.kbytes": 1024}
            self._consumer = self._cluster.consumer(self._errors, **small)
        messages: list[Message] = []
        self._consumer.assign([TopicPartition(partition.topic, partition.partition, offset)])
        deadline = time.monotonic() + PEEK_TIMEOUT_S
        try:
            while len(messages) < most and time.monotonic() < deadline:
                batch = self._consumer.consume(most - len(messages), 0.02)
                messages += [message for message in batch if message.error() is None]
                if any(message.error() is not None and _is_end(message.error()) for message in batch):
                    break
        finally:
            self._consumer.unassign()
        return messages

    def close(self) -> None:
        with self._lock:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None


def _is_end(error: KafkaError | None) -> bool:
    return error is not None and error.code() in (
        KafkaError._PARTITION_EOF,
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.OFFSET_OUT_OF_RANGE,
    )
