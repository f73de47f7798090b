"""Decides which partitions a stream reads and where each begins, once; finds those that are added or gone."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from confluent_kafka.admin import AdminClient

from headrace.define.kafka_source import KafkaSource
from headrace.errors import CorruptionError, HeadraceError, UnavailableError
from headrace.name_encoding import shell
from headrace.transport.kafka.partition_numbers import Partition, Partitions
from headrace.transport.kafka.topic_queries import (
    EARLIEST,
    LATEST,
    KafkaTopic,
    at_time,
    find_topics,
    list_offsets,
    list_topics,
)
from headrace.transport.position import Position


class TopicFinder:
    """Compares the topics of a cluster with the partitions that a stream has numbered."""

    def __init__(self, stream: str, source: KafkaSource, partitions: Partitions) -> None:
        self._stream = stream
        self._source = source
        self._partitions = partitions
        self._matching: list[str] = []  # topics of the pattern
        self._next_listing_s = 0.0

    def find(self, admin: AdminClient) -> dict[str, KafkaTopic]:
        """The topics of the stream that exist now."""
        names: Iterable[str] = self._source.topics
        if self._source.pattern is not None:
            if time.monotonic() >= self._next_listing_s:  # a cluster may have thousands
                self._matching = [name for name in list_topics(admin) if re.fullmatch(self._source.pattern, name)]
                self._next_listing_s = time.monotonic() + self._source.discovery_ms / 1000
            names = self._matching
        return find_topics(admin, sorted({*names, *(each.topic for each in self._partitions.open.values())}))

    def update(self, admin: AdminClient, reached: Position, ends: Position) -> None:
        """Number what is new. The lake has `reached`; `ends` are the last ends that were seen, if any.

        Raises UnavailableError while a topic is missing; CorruptionError if one was recreated, or is gone with events
        that were not read.
        """
        topics = self.find(admin)
        self._check_known(topics, reached, ends)
        missing = [name for name in self._source.topics if name not in topics]
        if missing:
            raise UnavailableError(
                f"stream '{self._stream}': topic '{missing[0]}' does not exist",
                fix="create it, or correct the definition; Headrace retries automatically",
            )
        if not topics and not self._partitions.decided:
            raise UnavailableError(
                f"stream '{self._stream}': no topic matches '{self._source.pattern}'",
                fix="create one, or correct the pattern; Headrace retries automatically",
            )
        new = self._new_partitions(admin, topics)
        if new or not self._partitions.decided:
            self._partitions.add(new)

    def _new_partitions(self, admin: AdminClient, topics: dict[str, KafkaTopic]) -> list[Partition]:
        known = {(each.topic, each.partition) for each in self._partitions.open.values()}
        known_topics = {topic for topic, _ in known}
        new = [(t, n) for t in topics.values() for n in range(t.partitions) if (t.name, n) not in known]
        if not new:
            return []
        if self._partitions.decided:
            # A partition that was added begins at 0. A topic that is new to a pattern begins where it begins now.
            earliest = [(t.name, n) for t, n in new if t.name not in known_topics]
            starts = list_offsets(admin, dict.fromkeys(earliest, EARLIEST))
        else:
            starts = self._first_starts(admin, [(t.name, n) for t, n in new])
        return [Partition(t.name, t.id, n, starts.get((t.name, n), 0)) for t, n in new]

    def _first_starts(self, admin: AdminClient, new: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        start = self._source.start
        if start.mode == "offsets":
            by_partition = dict(start.offsets)
            return {(topic, number): by_partition.get(number, 0) for topic, number in new}
        if start.mode == "latest":
            return list_offsets(admin, dict.fromkeys(new, LATEST))
        if start.mode == "earliest":
            return list_offsets(admin, dict.fromkeys(new, EARLIEST))
        at = at_time(start.timestamp_ms or 0)
        offsets = list_offsets(admin, dict.fromkeys(new, at))
        none = [each for each, offset in offsets.items() if offset < 0]  # all are earlier than that
        return offsets | list_offsets(admin, dict.fromkeys(none, LATEST))

    def _check_known(self, topics: dict[str, KafkaTopic], reached: Position, ends: Position) -> None:
        ended: dict[int, int] = {}
        for number, partition in self._partitions.open.items():
            topic = topics.get(partition.topic)
            if topic is None:
                error = self._gone(partition, max(reached.offset(number), partition.start), ends.offset(number))
                if error:
                    raise error
                ended[number] = ends.offset(number)
            elif topic.id != partition.topic_id:
                raise CorruptionError(
                    f"stream '{self._stream}': topic '{partition.topic}' was deleted and recreated",
                    found=f"topic id {topic.id}",
                    expected=f"{partition.topic_id}; of {partition} the lake has all before offset "
                    f"{reached.offset(number)}",
                    fix=f"`headrace skip {shell(self._stream)} --to earliest` continues with the new topic",
                )
        if ended:
            self._partitions.change({}, ended)

    def _gone(self, partition: Partition, reached: int, end: int) -> HeadraceError | None:
        if self._source.pattern is None:
            return UnavailableError(
                f"stream '{self._stream}': topic '{partition.topic}' does not exist any more",
                found=f"of its {partition.partition + 1}. partition, the lake has all before offset {reached}",
                fix="Headrace retries automatically",
            )
        if end and reached >= end:
            return None  # all of it was read
        return CorruptionError(
            f"stream '{self._stream}': topic '{partition.topic}' was deleted before all of it was read",
            found=f"of partition {partition.partition}, the lake has all before offset {reached}",
            fix=f"`headrace skip {shell(self._stream)} --to earliest` continues without it",
        )
