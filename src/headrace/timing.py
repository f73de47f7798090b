"""Histograms of durations with fixed buckets."""

from __future__ import annotations

import threading
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
