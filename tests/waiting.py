"""Tests wait for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], timeout_s: float = 60, said: Callable[[], object] = lambda: "") -> None:
    """Until it is true; what `said` gives explains why it never became so."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"it did not come in {timeout_s:.0f} s: {said()}"
        time.sleep(0.05)
