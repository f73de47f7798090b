"""CPU time for comparisons within one run: a test asserts a ratio, since seconds depend on the machine."""

from __future__ import annotations

import time
from collections.abc import Callable


def cpu_s(call: Callable[[], object], tries: int = 3) -> float:
    """CPU seconds of this process for a call: the least of some tries, since caches and other processes add to it."""

    def one() -> float:
        start_s = time.process_time()
        call()
        return time.process_time() - start_s

    return min(one() for _ in range(tries))
