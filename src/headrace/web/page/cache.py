"""A short-lived cache for values that are expensive to create."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

KEEP_S = 1.0
SHARE = 10  # a value is kept this many times as long as it took, so that creating it takes at most a tenth of a core
MOST = 64

Value = TypeVar("Value")


class _Entry(Generic[Value]):
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.until = 0.0
        self.value: Value | None = None


class Cache(Generic[Value]):
    """At most one value per key is created at a time; concurrent callers wait for it and share it."""

    def __init__(
        self,
        keep_s: float = KEEP_S,
        now: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._keep_s = keep_s
        self._now = now
        self._cpu_s = cpu_s  # CPU time of this thread; time spent waiting does not count
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry[Value]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The cached value, or a new one if it has expired."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            if len(self._entries) > MOST:
                self._entries.popitem(last=False)
        with entry.lock:
            if entry.value is None or self._now() >= entry.until:
                before = self._cpu_s()
                entry.value = make()
                entry.until = self._now() + max(self._keep_s, (self._cpu_s() - before) * SHARE)
            return entry.value
