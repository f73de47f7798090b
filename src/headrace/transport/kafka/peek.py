"""Looks at single messages of a topic, for their time and size, in the process that holds the stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from headrace.transport.kafka.client import Cluster, LastError
from headrace.transport.kafka.partitions import Partition
from headrace.transport.position import Position

TIMEOUT_S = 2.0
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
        deadline = time.monotonic() + TIMEOUT_S
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
