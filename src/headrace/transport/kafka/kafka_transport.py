"""The transport of a stream whose events are in Kafka: offsets are ours, and what is sent to it is produced there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.define.kafka_source import KafkaSource, Start
from headrace.disk import write_format
from headrace.errors import SEND_AGAIN, HeadraceError, UnavailableError, UsageError
from headrace.transport.kafka.kafka_clients import RETRY_AFTER_S, LastError, make_cluster
from headrace.transport.kafka.kafka_producer import Producing
from headrace.transport.kafka.kafka_reader import KafkaReader
from headrace.transport.kafka.partition_numbers import Partition, Partitions, starts
from headrace.transport.kafka.partition_watch import PartitionWatch
from headrace.transport.kafka.produced_requests import Noted, ProducedRequests
from headrace.transport.kafka.topic_queries import (
    Peek,
    at_time,
    earliest_offsets,
    find_topics,
    latest_offsets,
    list_offsets,
)
from headrace.transport.position import START, Position
from headrace.transport.sent_files import FilePiece, SentFiles
from headrace.transport.stored_transport import FORMAT, check_kafka_format
from headrace.transport.transport_contract import Receipt, Skipped

NAME = "kafka"
FIRST_LOOK_S = 8.0  # how long opening waits for the broker; without it, the stream waits
AWAY_S = 5.0  # without an answer of the broker, freshness is not known
RECOVERY_S = 20.0


class KafkaTransport:
    """A Transport over the partitions of one or several topics. Offsets count messages."""

    name = NAME

    def __init__(
        self,
        folder: Path,
        stream: str,
        source: KafkaSource,
        stream_format: str,
        *,
        fence: int,
        lake_end: Position = START,
        still_mine: Callable[[], None] = lambda: None,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        check_kafka_format(folder)
        write_format(folder, FORMAT)
        self.folder = folder
        self._stream = stream
        self._source = source
        self._clock_us = clock_us
        self._monotonic_s = monotonic_s
        self._lake_end = lake_end
        self._closed = False
        self._cluster = make_cluster(stream, source.properties)
        self._partitions = Partitions(folder)
        self._peek = Peek(self._cluster)
        self._watch = PartitionWatch(
            self._cluster, source, self._partitions, self._peek, lake_end=lake_end, monotonic_s=monotonic_s
        )
        self._requests = ProducedRequests(
            folder, fence=fence, still_mine=still_mine, clock_us=clock_us, monotonic_s=monotonic_s
        )
        self._producing = Producing(self._cluster, stream_format, self._requests, self._watch, still_mine)
        self.reader = KafkaReader(self._cluster, self._watch)
        self._watch.first_look.wait(FIRST_LOOK_S)

    # Accepting requests

    @property
    def end(self) -> Position:
        """The end of what is committed in Kafka, as last seen."""
        return self._watch.ends.merge(self._lake_end)

    @property
    def sent(self) -> SentFiles:
        """The sent part of each file. Waits until what an earlier process sent is known."""
        if not self._producing.recovered.wait(RECOVERY_S):
            raise self._away("which files were sent is not known yet")
        return self._requests.sent

    def now_us(self) -> int:
        return self._clock_us()

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
        """Queue one request; the future is done when Kafka has committed all of its events, and none otherwise."""
        trouble = self._watch.trouble
        if trouble is not None:
            raise self._away(str(trouble.found or trouble.message))
        return self._producing.submit(payload, Noted(key or None, digest, accepted, refused, file, self._clock_us()))

    def recall(self, key: str) -> Receipt | None:
        return self._requests.recall(key)

    def _away(self, found: str) -> UnavailableError:
        error = UnavailableError(
            f"stream '{self._stream}': Kafka at {self._cluster.servers} cannot take events now",
            found=found,
            fix=SEND_AGAIN,
        )
        error.retry_after_s = RETRY_AFTER_S
        return error

    # Following

    @property
    def start(self) -> Position:
        """The offsets where reading begins: nothing before them is ever read."""
        return starts(self._partitions.all)

    @property
    def trouble(self) -> HeadraceError | None:
        """The reason why the cluster does not answer, or cannot be read or written; None once it can."""
        return self._watch.trouble or self._producing.trouble

    def lags(self, position: Position) -> Mapping[tuple[str, int], int] | None:
        """The number of offsets between a position and the end of each partition; None while the broker is away."""
        if self._watch.seen_s is None or self._watch.trouble is not None:
            return None
        first, ends = position.merge(self.start), self._watch.ends
        return {
            (each.topic, each.partition): max(0, ends.offset(number) - first.offset(number))
            for number, each in self._partitions.open.items()
        }

    def age_ms(self, position: Position) -> int | None:
        """The age of the oldest event after this position, since it was first seen, or by its own time if earlier."""
        self._watch.reach(position)  # of a view or of the lake
        seen_s = self._watch.seen_s
        if seen_s is None or (self._watch.trouble is not None and time.monotonic() > seen_s + AWAY_S):
            return None
        first, ends = position.merge(self.start), self._watch.ends
        ages = [0]
        for number, partition in self._partitions.open.items():
            if first.offset(number) < ends.offset(number):
                age_ms = self._age_ms(number, partition, first.offset(number))
                if age_ms is None:
                    return None
                ages.append(age_ms)
        return max(ages)

    def _age_ms(self, number: int, partition: Partition, offset: int) -> int | None:
        arrival_s = self._watch.ages.arrival_s(number, offset)
        if arrival_s is not None:
            return int((self._monotonic_s() - arrival_s) * 1000)
        with suppress(KafkaException):
            time_ms = self._peek.timestamp_ms(partition, offset)
            if time_ms is not None:
                return max(0, self._clock_us() // 1000 - time_ms)
        return None

    def mend(self) -> None:
        """Do nothing: its clients connect again by themselves."""

    def reclaim(self, lake_end: Position) -> int:
        """Forget old keys. Kafka's retention deletes events; the lake has those before `lake_end`."""
        self._lake_end = self._lake_end.merge(lake_end)
        self._watch.reach(lake_end)
        if self._source.group is not None:
            self._commit_offsets(lake_end)
        return self._requests.reclaim()

    def _commit_offsets(self, lake_end: Position) -> None:
        """Commit offsets for monitoring tools only: nothing reads them here. Lost ones follow in the next round."""
        offsets = [
            TopicPartition(each.topic, each.partition, lake_end.offset(number))
            for number, each in self._partitions.open.items()
            if lake_end.offset(number)
        ]
        if offsets and self._watch.trouble is None:
            with suppress(KafkaException):
                consumer = self._cluster.consumer()  # of the group in the properties
                try:
                    consumer.commit(offsets=offsets, asynchronous=False)
                finally:
                    consumer.close()

    def skip(self, to: Start, lake_end: Position, *, dry_run: bool = False) -> list[Skipped]:
        """Continue at other offsets, deliberately: the first or last that there are, those of a time, or given ones.

        Events between `lake_end`, the lake's position, and there are never read. A topic that was recreated is
        read under new numbers. Returns what was left out. Raises UsageError for an offset before the lake.
        """
        errors = LastError()
        try:
            admin = self._cluster.admin(errors)
            return self._skip(admin, to, lake_end, dry_run=dry_run)
        except KafkaException as error:
            raise self._cluster.explain(error, errors) from error
        finally:
            self._watch.check_now()

    def _skip(self, admin: AdminClient, to: Start, lake_end: Position, *, dry_run: bool) -> list[Skipped]:
        known = self._partitions.open
        topics = find_topics(admin, sorted({each.topic for each in known.values()}))
        kept = {n: e for n, e in known.items() if e.topic in topics and topics[e.topic].id == e.topic_id}
        ends_of_gone = {n: max(lake_end.offset(n), e.start) for n, e in known.items() if n not in kept}
        renewed = {each.topic for number, each in known.items() if number in ends_of_gone and each.topic in topics}
        new = [
            Partition(name, topics[name].id, n, 0) for name in sorted(renewed) for n in range(topics[name].partitions)
        ]
        all_now = [*kept.values(), *new]
        lows, ends = earliest_offsets(admin, all_now), latest_offsets(admin, all_now)
        offsets = self._wanted_offsets(admin, to, all_now)
        skipped: list[Skipped] = []
        changed: dict[int, int] = {}
        again: list[Partition] = []
        for index, each in enumerate(all_now):
            low, end = lows.offset(index), ends.offset(index)
            number = list(kept)[index] if index < len(kept) else None
            reached = max(lake_end.offset(number), each.start) if number is not None else 0
            offset = offsets.get((each.topic, each.partition))
            target = _target(self._stream, to, each, offset, low=low, end=end, reached=reached)
            if number is not None and target > reached:
                changed[number] = target
            elif number is not None and target < reached:  # truncated: its offsets are used again, under a new number
                ends_of_gone[number] = reached
                again.append(Partition(each.topic, each.topic_id, each.partition, target))
            elif number is None:
                new[index - len(kept)] = Partition(each.topic, each.topic_id, each.partition, target)
            if target != reached or number is None:
                skipped.append(Skipped(each.topic, each.partition, reached, target))
        if dry_run or (not skipped and not ends_of_gone):
            return skipped
        self._partitions.change(changed, ends_of_gone, [*new, *again])
        return skipped

    def _wanted_offsets(
        self, admin: AdminClient, to: Start, partitions: Sequence[Partition]
    ) -> Mapping[tuple[str, int], int]:
        """The offsets that are asked for, or those of the first events at or after a time."""
        if to.mode == "timestamp":
            at = at_time(to.timestamp_ms or 0)
            offsets = list_offsets(admin, {(each.topic, each.partition): at for each in partitions})
            return {place: offset for place, offset in offsets.items() if offset >= 0}
        offset_by_partition = dict(to.offsets)
        topics = {each.topic for each in partitions}
        if offset_by_partition and len(topics) > 1:
            raise UsageError(
                f"stream '{self._stream}' has several topics: offsets are those of one",
                found=", ".join(sorted(topics)),
                fix="name a time, earliest or latest",
            )  # fmt: skip
        unknown = sorted(set(offset_by_partition) - {each.partition for each in partitions})
        if unknown:
            raise UsageError(
                f"stream '{self._stream}' has no partition {unknown[0]}",
                expected=f"one of {', '.join(str(each.partition) for each in partitions)}",
            )
        return {(topic, partition): offset for topic in topics for partition, offset in offset_by_partition.items()}

    def close(self) -> None:
        """Make the queued requests durable, then stop."""
        if self._closed:
            return
        self._closed = True
        self._producing.close()
        self._watch.close()
        self._peek.close()
        self._requests.close()


def _target(
    stream: str, to: Start, partition: Partition, offset: int | None, *, low: int, end: int, reached: int
) -> int:
    """The offset at which a partition continues; never one before what the lake has, as far as that is still there."""
    if to.mode == "latest" or (to.mode == "timestamp" and offset is None):  # no event of that time or later
        return max(end, reached) if reached <= end else end
    if offset is None:
        return max(low, min(reached, end))
    if to.mode == "timestamp":
        return max(low, min(max(reached, offset), end))
    if reached <= offset <= end and offset >= low:
        return offset
    raise UsageError(
        f"stream '{stream}' cannot continue at offset {offset} of {partition}",
        expected=f"an offset from {max(reached, low)} to {end}",
        fix="what the lake has is not read again" if offset < reached else None,
    )
