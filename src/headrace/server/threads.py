"""Threads are joined by handle before what they use is closed; one that does not end in time is named in the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import structlog

log = structlog.get_logger("headrace.threads")


def join_all(threads: Iterable[threading.Thread | None], within_s: float) -> bool:
    """Wait until these have ended, so many seconds at most; whether they have."""
    deadline = time.monotonic() + within_s
    late = []
    for thread in threads:
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
            late += [thread.name] if thread.is_alive() else []
    if late:
        log.warning("threads did not end in time", threads=late, within_s=within_s)
    return not late
