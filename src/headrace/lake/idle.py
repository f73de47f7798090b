"""The time of a stream goes on while no events come, so that its last windows settle.

It is recorded in the lake, by commits without events. Rows of later commits hold it in `_newest`, from which both
layers tell what is a correction, so that builds, restarts and both lanes agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.lake.table import LakeState

SHARE = 10  # of the time that a stream has been idle: so much of it may not be recorded yet


class IdleClock:
    """Says when an idle stream's time is to be recorded, and what it is.

    It goes on from where it was when the last commit was made, as fast as the clock of this process: a stream whose
    events are always an hour late is not taken to be on time when it is idle, and the time that the server was down
    does not count. Each entry of the log costs some milliseconds, so they become rarer: after an idle hour, at most six
    minutes are not recorded.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._commit: int | None = None  # the next one, as long as the stream is idle
        self._since_s = 0.0
        self._from_us = 0
        self._recorded_s = 0.0  # of the time since then

    def restart(self) -> None:
        """Count from now on."""
        self._commit = None

    def advance(self, at: LakeState, timeout_ms: int) -> int | None:
        """The time to record now, in us; None: nothing. It is taken to be recorded as the next commit."""
        if at.time_us is None:
            return None
        if at.next_commit != self._commit:
            self._commit, self._since_s, self._from_us, self._recorded_s = at.next_commit, self._now_s(), at.time_us, 0
            return None
        idle_s = self._now_s() - self._since_s
        if idle_s - self._recorded_s < max(timeout_ms / 1000, idle_s / SHARE):
            return None
        self._commit, self._recorded_s = at.next_commit + 1, idle_s
        return self._from_us + int(idle_s * 1e6)
