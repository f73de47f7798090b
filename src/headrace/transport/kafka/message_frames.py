"""Makes events of Kafka's messages: their values as frames, and their metadata as columns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Message

from headrace.define.model import TEXT
from headrace.parse.frames import frame_messages
from headrace.parse.record_columns import utc_us
from headrace.parse.tombstones import NO_VALUE
from headrace.transport.position import event_base
from headrace.transport.transport_contract import TransportEvents

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True)
class KafkaMetadata:
    """The metadata of some messages of one partition."""

    messages: Sequence[Message]
    offsets: npt.NDArray[np.int64]
    times_ms: npt.NDArray[np.int64]  # negative: there is none

    def key(self) -> pa.Array:
        return pa.array(list(map(Message.key, self.messages)), pa.binary())

    def header(self, name: str) -> pa.Array:
        return pa.array([dict(pairs).get(name) if pairs else None for pairs in self._headers], pa.binary())

    def headers(self) -> pa.Array:
        if not any(self._headers):
            return pa.nulls(len(self.messages), HEADERS)
        rows = [[{"key": key, "value": value} for key, value in pairs] if pairs else None for pairs in self._headers]
        return pa.array(rows, HEADERS)

    def timestamp(self) -> pa.Array:
        return pa.array(self.times_ms * 1000, mask=self.times_ms < 0).cast(utc_us())

    def topic(self) -> pa.Array:
        return pa.repeat(pa.scalar(self.messages[0].topic(), pa.string()), len(self.messages))

    def partition(self) -> pa.Array:
        return pa.repeat(pa.scalar(self.messages[0].partition(), pa.int32()), len(self.messages))

    def offset(self) -> pa.Array:
        return pa.array(self.offsets)

    @cached_property
    def _headers(self) -> list[Any]:
        return list(map(Message.headers, self.messages))


def make_events(number: int, messages: Sequence[Message], stream_format: str) -> TransportEvents:
    """The events of messages of one partition, which has this number in positions; each message is one event."""
    values: list[Any] = list(map(Message.value, messages))
    reasons = None
    if None in values:
        reasons = pa.array([NO_VALUE if value is None else None for value in values], pa.string())
        values = [value or b"" for value in values]
    frames = frame_messages(values, trim=stream_format != TEXT)
    count = len(messages)
    offsets = _offsets(messages)
    times_ms = np.fromiter(map(itemgetter(1), map(Message.timestamp, messages)), np.int64, count)
    metadata = KafkaMetadata(messages, offsets, times_ms)
    return TransportEvents(frames, event_base(number) + offsets, _arrivals(times_ms), reasons, metadata)


def _offsets(messages: Sequence[Message]) -> npt.NDArray[np.int64]:
    first, last = messages[0].offset() or 0, messages[-1].offset() or 0
    if last - first == len(messages) - 1:  # they ascend, so that there is no gap
        return np.arange(first, last + 1, dtype=np.int64)
    return np.fromiter(map(Message.offset, messages), np.int64, len(messages))


def _arrivals(times_ms: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Kafka's timestamps. None counts as later than now: a producer's clock may run ahead, or be missing."""
    now_ms = time.time_ns() // 1_000_000
    arrived: npt.NDArray[np.int64] = np.where((times_ms < 0) | (times_ms > now_ms), now_ms, times_ms) * 1000
    return arrived
