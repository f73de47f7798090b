"""Histograms of durations with fixed buckets, and rates."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Timing:
    """A histogram of durations since the start of the process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def note(self, seconds: float) -> None:
        """Count one duration."""
        with self._lock:
            self._counts[bisect_left(BOUNDS_S, seconds)] += 1
            self._sum_s += seconds

    def read(self) -> tuple[list[tuple[float, int]], float]:
        """The count up to each bound (the last is infinite), and the sum of all durations in seconds."""
        with self._lock:
            counts, total = list(self._counts), self._sum_s
        running, below = 0, []
        for bound, count in zip((*BOUNDS_S, float("inf")), counts, strict=True):
            running += count
            below.append((bound, running))
        return below, total


class Rate:
    """The growth of a count per second, over the last seconds."""

    SPAN_S = 5.0

    def __init__(self, count: int) -> None:
        self._samples = [(time.monotonic(), count)]

    def note(self, count: int) -> None:
        """The count as it is now."""
        now = time.monotonic()
        self._samples.append((now, count))
        while len(self._samples) > 2 and self._samples[1][0] < now - self.SPAN_S:
            self._samples.pop(0)

    def per_second(self) -> float:
        """The growth between the oldest and the newest sample."""
        (first, before), (last, after) = self._samples[0], self._samples[-1]
        return (after - before) / (last - first) if last > first else 0.0


def later(a: int | None, b: int | None) -> int | None:
    """The later of two times that may not be known."""
    return b if a is None else a if b is None else max(a, b)
