"""Limits that a child sets on itself before it runs SQL: memory, time, files, processes."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path

NICENESS = 10
SPARE_S = 1.0  # past the deadline, at which the parent kills; this is for a child whose parent is gone


def _lower(which: int, to: int) -> None:
    hard = resource.getrlimit(which)[1]
    lowest = to if hard == resource.RLIM_INFINITY else min(to, hard)
    resource.setrlimit(which, (lowest, lowest))


def limit_from_start() -> None:
    """No traces of a crash, no file that grows, and way for the server."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    os.nice(NICENESS)


def limit_query(memory_mb: int, timeout_s: float) -> None:
    """So much memory beyond what the programs themselves take, and an end that no code can put off."""
    _lower(resource.RLIMIT_AS, _mapped_bytes() + (memory_mb << 20))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, timeout_s + SPARE_S)


def rest() -> None:
    """No query is at work, so none has an end."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def close_doors(timeout_s: float, threads: int) -> None:
    """From here on nothing can be opened: no file, no socket, no process. What is open stays usable."""
    _lower(resource.RLIMIT_CPU, int(time.process_time() + (timeout_s + SPARE_S) * threads) + 1)
    _lower(resource.RLIMIT_NPROC, 0)
    _lower(resource.RLIMIT_NOFILE, 0)


def _mapped_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 30  # not Linux: what the libraries map is not known
