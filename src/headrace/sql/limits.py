"""Limits of a child process: memory, time, files, processes. Apart from the child, so that tests can use them alone."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path

NICENESS = 10
SPARE_S = 1.0  # after the deadline at which the parent kills it, in case the parent no longer runs


def _lower(which: int, to: int) -> None:
    hard = resource.getrlimit(which)[1]
    lowest = to if hard == resource.RLIM_INFINITY else min(to, hard)
    resource.setrlimit(which, (lowest, lowest))


def limit_from_start() -> None:
    """No core dumps, no writes to files, and a lower priority than the server."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    os.nice(NICENESS)


def limit_query(memory_mb: int, timeout_s: float) -> None:
    """Limit the memory beyond what the process already uses, and the time by a signal that ends the process."""
    _lower(resource.RLIMIT_AS, _mapped_bytes() + (memory_mb << 20))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, timeout_s + SPARE_S)


def clear_time_limit() -> None:
    """Cancel the time limit, since no query is running."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def forbid_opening(timeout_s: float, threads: int) -> None:
    """From now on no file, socket or process can be opened. Open ones stay usable."""
    _lower(resource.RLIMIT_CPU, int(time.process_time() + (timeout_s + SPARE_S) * threads) + 1)
    _lower(resource.RLIMIT_NPROC, 0)
    _lower(resource.RLIMIT_NOFILE, 0)


def _mapped_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 30  # not Linux: the mapped memory is unknown
