"""A short-lived cache for values that are expensive to make."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

KEEP_S = 1.0
SHARE = 10  # a thing that cost much is kept so many times as long: making it never takes more than a tenth of a core
MOST = 64

Made = TypeVar("Made")


class _Entry(Generic[Made]):
    def __init__(self) -> None:
        self.making = threading.Lock()
        self.until = 0.0
        self.made: Made | None = None


class Kept(Generic[Made]):
    """At most one is made per key at a time; those who come meanwhile wait for it and share it."""

    def __init__(
        self,
        keep_s: float = KEEP_S,
        now: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self._keep_s = keep_s
        self._now = now
        self._spent = spent  # of the processor by this thread: waiting for others is no cost
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry[Made]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The thing, made now or a moment ago."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            if len(self._entries) > MOST:
                self._entries.popitem(last=False)
        with entry.making:
            if entry.made is None or self._now() >= entry.until:
                before = self._spent()
                entry.made = make()
                entry.until = self._now() + max(self._keep_s, (self._spent() - before) * SHARE)
            return entry.made
