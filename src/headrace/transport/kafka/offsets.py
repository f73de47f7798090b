"""Asks a Kafka cluster for topics and for offsets of their partitions: few requests, whatever the number of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from headrace.transport.kafka.client import MISSING
from headrace.transport.kafka.partitions import Partition
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
class Topic:
    """A topic as the cluster has it; a topic that is made anew under its name has another id."""

    name: str
    id: str
    partitions: int


def list_topics(admin: AdminClient) -> list[str]:
    """The names of all topics but Kafka's own."""
    return sorted(name for name in admin.list_topics(timeout=TIMEOUT_S).topics if not name.startswith("__"))


def find_topics(admin: AdminClient, names: Sequence[str]) -> dict[str, Topic]:
    """The topics of these names that exist."""
    topics: dict[str, Topic] = {}
    if not names:
        return topics
    for name, future in admin.describe_topics(TopicCollection(list(names)), request_timeout=TIMEOUT_S).items():
        try:
            description = future.result(TIMEOUT_S + 1)
        except KafkaException as error:
            if error.args[0].code() not in MISSING:
                raise
        else:
            topics[name] = Topic(name, str(description.topic_id), len(description.partitions))
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
    """Whether a topic or partition does not exist (any more)."""
    cause = error.args[0] if error.args else None
    return isinstance(cause, KafkaError) and cause.code() in MISSING


def is_passing(error: Exception) -> bool:
    """Whether the cluster is changing, so that the same request succeeds in a moment."""
    cause = error.args[0] if isinstance(error, KafkaException) and error.args else None
    return isinstance(cause, KafkaError) and cause.code() in _CHANGING
