"""Tests wait for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], timeout_s: float = 180, details: Callable[[], object] = lambda: "") -> None:
    """Wait until it is true; after a timeout, the error contains `details`."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"it did not happen in {timeout_s:.0f} s: {details()}"
        time.sleep(0.05)
