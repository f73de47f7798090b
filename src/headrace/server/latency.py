"""End-to-end latency: from the arrival of an event until the views of its stream answer with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import cache

from headrace.store.version import Version
from headrace.timing import Timing
from headrace.transport.position import Position


class Latencies:
    """A histogram for each view of a stream: of the oldest event of each step, so that no event took longer."""

    def __init__(self, stream: str, age_ms: Callable[[Position], int | None]) -> None:
        """`age_ms` gives the time since the arrival of the oldest event that a position does not cover."""
        self._stream = stream
        self._age_ms = age_ms
        self._reached: dict[str, Position | None] = {}
        self._times: dict[str, Timing] = {}
        self._lock = threading.Lock()  # both lanes note their steps

    def note(self, versions: Iterable[Version]) -> None:
        """Note how far the views have come: called after each step."""
        age_ms = cache(self._age_ms)  # most views continue from the same position
        serving = {each.view.name: each for each in versions if each.serving and each.reads(self._stream)}
        with self._lock:
            self._times = {name: self._times.get(name) or Timing() for name in serving}
            before, self._reached = (
                self._reached,
                {name: version.base(self._stream).position for name, version in serving.items()},
            )
            for name, reached in self._reached.items():
                since = before.get(name)
                if since is not None and reached is not None and reached != since and (age := age_ms(since)):
                    self._times[name].note(age / 1000)

    def times(self) -> dict[str, Timing]:
        """The histograms, by view."""
        return self._times
