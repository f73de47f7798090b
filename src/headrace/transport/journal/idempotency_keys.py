"""The idempotency keys of a journal: where each one's record is, for at least a day.

A change of the clock must not let a retried request be accepted twice, so a key expires only when it is old by
two clocks: the wall clock, and the journal's own time, which is the newest arrival at start plus the time that has
passed since by the monotonic clock.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

WINDOW_US = 24 * 3600 * 1_000_000  # how long a retried request is recognised, at least
MARK_US = 60 * 1_000_000  # the precision of the window


@dataclass
class _Mark:
    """Records that end at or before a position arrived no later than this."""

    position: int
    journal_us: int
    wall_us: int


class Keys:
    """Positions by key, oldest first. Safe for several threads."""

    def __init__(self, clock_us: Callable[[], int], monotonic_s: Callable[[], float]) -> None:
        self._clock_us = clock_us
        self._monotonic_s = monotonic_s
        self._started_s = monotonic_s()
        self._newest_us = 0  # arrival among the records that existed at start
        self._positions: dict[bytes, int] = {}  # by a hash of the key
        self._marks: deque[_Mark] = deque()
        self._forgotten_to = 0
        self._lock = threading.Lock()

    def note_old(self, key: str | None, position: int, end: int, arrived_us: int) -> None:
        """Store the key of a record [position, end) that existed at start. A later position is a later arrival."""
        self._newest_us = max(self._newest_us, arrived_us)
        self._note(key, position, end, self._newest_us, arrived_us)

    def note(self, key: str | None, position: int, end: int, arrived_us: int) -> None:
        """Store the key of a record that this process has written."""
        self._note(key, position, end, self._journal_us(), arrived_us)

    def find(self, key: str) -> int | None:
        """The position of a key's record, if it arrived within the window."""
        self.forgotten_to()
        with self._lock:
            return self._positions.get(_hash(key))

    def forgotten_to(self) -> int:
        """The position before which all keys have expired."""
        now_us = self._journal_us() - WINDOW_US, self._clock_us() - WINDOW_US
        with self._lock:
            before = self._forgotten_to
            while self._marks and self._marks[0].journal_us < now_us[0] and self._marks[0].wall_us < now_us[1]:
                self._forgotten_to = self._marks.popleft().position
            if self._forgotten_to > before:
                self._positions = {k: p for k, p in self._positions.items() if p >= self._forgotten_to}
            return self._forgotten_to

    def _note(self, key: str | None, position: int, end: int, journal_us: int, wall_us: int) -> None:
        with self._lock:
            if key is not None:
                self._positions[_hash(key)] = position
            last = self._marks[-1] if self._marks else None
            if last is None or last.journal_us < journal_us - MARK_US:
                self._marks.append(_Mark(end, journal_us, wall_us))
            else:
                last.position, last.journal_us = end, journal_us
                last.wall_us = max(last.wall_us, wall_us)

    def _journal_us(self) -> int:
        return self._newest_us + int((self._monotonic_s() - self._started_s) * 1e6)


def _hash(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=16).digest()
