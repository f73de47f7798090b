"""How long builds took: what one takes beside reading events, for estimates of the next."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from statistics import median

from headrace.plan.cost import DEFAULT_EVENTS_PER_S, Load, load_now
from headrace.store.version import VersionId

KEPT = 3  # builds; the last ones say most of the next
LEAST_S = 0.5


class BuildTimes:
    """The last builds of one stream, from their first piece of work until they serve."""

    def __init__(self, now: Callable[[], float] = time.monotonic, load: Callable[[], Load] = load_now) -> None:
        self._now = now
        self._load = load
        self._began: dict[VersionId, tuple[float, int, Load]] = {}
        self._beginnings: deque[float] = deque(maxlen=KEPT)

    @property
    def beginning_s(self) -> float | None:
        """What builds took beside reading events, as on a machine that does nothing else; None before the first."""
        return median(self._beginnings) if self._beginnings else None

    def begin(self, version: VersionId, events: Callable[[], int]) -> None:
        """The first piece of work on a version begins; later ones are no news."""
        if version not in self._began:
            self._began[version] = (self._now(), events(), self._load())

    def serves(self, version: VersionId, events_per_s: float | None) -> None:
        """A version serves. One that was not built by this process says nothing."""
        began = self._began.pop(version, None)
        if began is None or not began[1]:
            return
        at, events, load = began
        took_s = (self._now() - at) / load.slowdown
        self._beginnings.append(max(LEAST_S, took_s - events / (events_per_s or DEFAULT_EVENTS_PER_S)))
