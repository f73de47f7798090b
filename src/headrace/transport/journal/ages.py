"""How long ago positions were taken in, by a clock that does not jump when the wall clock is set."""

from __future__ import annotations

import threading
from bisect import bisect_right

CLOSEST_S = 0.005  # groups nearer to each other than this share a note
MOST = 20_000


class Ages:
    """When this process took in what begins at a position, for the newest some thousand groups."""

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._times_s: list[float] = []
        self._lock = threading.Lock()

    def note(self, position: int, at_s: float) -> None:
        """What begins at this position, behind all others, came at this monotonic time."""
        with self._lock:
            if self._times_s and at_s - self._times_s[-1] < CLOSEST_S:
                return
            self._positions.append(position)
            self._times_s.append(at_s)
            if len(self._positions) > MOST:
                del self._positions[: MOST // 2], self._times_s[: MOST // 2]

    def came_s(self, position: int) -> float | None:
        """When what begins here came, or a little before; None if that is not known."""
        with self._lock:
            index = bisect_right(self._positions, position) - 1
            return self._times_s[index] if index >= 0 else None
