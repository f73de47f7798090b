"""Pauses before something is started again: longer each time, short again after it has run for a while."""

from __future__ import annotations

import time

FIRST_S = 1.0
LONGEST_S = 60.0
RAN_LONG_S = 60.0


class BackOff:
    """The pause before the next attempt."""

    def __init__(self) -> None:
        self._pause_s = FIRST_S
        self._until = 0.0

    @property
    def is_over(self) -> bool:
        """Whether it is time for the next attempt."""
        return time.monotonic() >= self._until

    def start(self, ran_s: float) -> str:
        """Begin a pause, after it has run for so long; returns the words for it."""
        if ran_s >= RAN_LONG_S:
            self._pause_s = FIRST_S
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_S)
        self._until = time.monotonic() + pause_s
        return f"in {pause_s:.0f} s"
