"""The lateness of events: histograms of lateness and delay, which can be added, and the quantiles for advice.

Lateness is how far an event was behind the time of the stream before its commit, which is what decides whether it is a
correction; delay is its arrival minus its event time. Both are functions of the rows of the lake: a worker at
the append and a reader of the files get the same.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.define.model import Stream
from headrace.lake.table_schema import ARRIVED, COMMITTED_AT, NEWEST
from headrace.lazy import np, pa

# The bits of a positive double are in the order of its values: without the last 48, there are 16 buckets from each
# power of 2 to the next, so that a bound is at most 1/16 above the values below it.
_SHIFT = 48
_FIRST = (1023 << 4) - 1  # bucket 0 is that of 0 us, bucket 1 begins at 1 us
DAY_US = 86_400_000_000
DAYS = 7  # up to the newest commit: older commits say nothing about the present


@dataclass(frozen=True)
class LatenessHistogram:
    """The number of durations in each bucket, and the largest of all."""

    counts: Mapping[int, int] = field(default_factory=dict)
    largest_us: int = 0

    @classmethod
    def of(cls, durations_us: np.ndarray[Any, np.dtype[np.int64]]) -> LatenessHistogram:
        """The histogram of durations that are not negative."""
        if not len(durations_us):
            return cls()
        buckets = np.maximum((durations_us.astype(np.float64).view(np.int64) >> _SHIFT) - _FIRST, 0)
        counts = np.bincount(buckets)
        return cls({int(at): int(counts[at]) for at in np.flatnonzero(counts)}, int(durations_us.max()))

    def __add__(self, other: LatenessHistogram) -> LatenessHistogram:
        counts = {at: self.counts.get(at, 0) + other.counts.get(at, 0) for at in self.counts.keys() | other.counts}
        return LatenessHistogram(counts, max(self.largest_us, other.largest_us))

    @property
    def total(self) -> int:
        """The number of durations."""
        return sum(self.counts.values())

    def quantile_us(self, share: float) -> int:
        """A duration that at least this share of them do not exceed, at most 1/16 more than the least such one."""
        rank, below = math.ceil(share * self.total), 0
        for at in sorted(self.counts):
            below += self.counts[at]
            if below >= rank:
                return min(_end_us(at), self.largest_us)
        return self.largest_us

    def above(self, bound_us: int) -> int:
        """The number of durations that are longer; those of the bucket that it lies in are not counted."""
        return sum(count for at, count in self.counts.items() if at and _start_us(at) > bound_us)


@dataclass(frozen=True)
class Lateness:
    """The events of some commits. Sums of it do not depend on how the commits are split."""

    lateness: LatenessHistogram = field(default_factory=LatenessHistogram)
    delay: LatenessHistogram = field(default_factory=LatenessHistogram)

    def __add__(self, other: Lateness) -> Lateness:
        return Lateness(self.lateness + other.lateness, self.delay + other.delay)

    @property
    def events(self) -> int:
        """All of them: those on time and those that were late."""
        return self.lateness.total

    @property
    def on_time(self) -> int:
        """The number of events that were not behind the time of the stream."""
        return self.lateness.counts.get(0, 0)


Days = Mapping[int, Lateness]  # by the day of the commits, counted from 1970


def join_days(parts: Iterable[Days]) -> Days:
    """The sum for each day, of the last DAYS."""
    joined: dict[int, Lateness] = {}
    for part in parts:
        for day, lateness in part.items():
            joined[day] = joined[day] + lateness if day in joined else lateness
    first = max(joined, default=0) - DAYS
    return {day: joined[day] for day in sorted(joined) if day > first}


def measure(stream: Stream, events: pa.Table) -> Days:
    """The lateness of events, which have the lake's columns."""
    if stream.event_time is None:
        return {}
    if events.column(stream.event_time).null_count:
        events = events.filter(events.column(stream.event_time).is_valid())
    if not len(events):
        return {}
    at, arrived, committed = (_numbers(events, name) for name in (stream.event_time, ARRIVED, COMMITTED_AT))
    newest = events.column(NEWEST).cast(pa.int64())
    # The first commit of a stream has nothing before it.
    behind = np.maximum(newest.fill_null(np.iinfo(np.int64).min).to_numpy(), at) - at
    delay = np.maximum(arrived - at, 0)
    day = int(committed.min()) // DAY_US
    if day == int(committed.max()) // DAY_US:
        return {day: Lateness(LatenessHistogram.of(behind), LatenessHistogram.of(delay))}
    days = committed // DAY_US
    return {
        int(day): Lateness(LatenessHistogram.of(behind[days == day]), LatenessHistogram.of(delay[days == day]))
        for day in np.unique(days)
    }


def _numbers(events: pa.Table, name: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    return events.column(name).cast(pa.int64()).to_numpy()


def _start_us(bucket: int) -> int:
    return math.ceil(_double((bucket + _FIRST) << _SHIFT))


def _end_us(bucket: int) -> int:
    """The longest whole duration in a bucket."""
    return math.ceil(_double((bucket + 1 + _FIRST) << _SHIFT)) - 1 if bucket else 0


def _double(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value
