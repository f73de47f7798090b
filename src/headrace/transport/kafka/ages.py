"""When the events of Kafka's partitions were first seen, by the monotonic clock of this process."""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass, field

from headrace.transport.position import Position

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
        """When the event at an offset was first seen; None if it is older than all entries."""
        with self._lock:
            of = self._partitions.get(number)
            index = bisect_right(of.offsets, offset) - 1 if of else -1
            return of.times_s[index] if of and index >= 0 else None
