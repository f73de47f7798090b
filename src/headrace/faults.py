"""Named points where a test can kill the process or inject a system error. Off by default.

HEADRACE_FAULT contains faults, separated by commas:

    journal.before_fsync            die here, as by kill -9
    journal.before_fsync:3          die here when the point is passed the third time
    store.before_commit=ENOSPC      raise this error here, each time the point is passed
    @FILE                           the faults in FILE, if it exists, which can change while the process runs
"""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

VARIABLE = "HEADRACE_FAULT"

POINTS = (
    "journal.before_write",
    "journal.before_fsync",
    "journal.after_fsync",
    "kafka.before_produce",
    "kafka.after_produce",
    "append.in_worker",
    "fused.in_worker",
    "append.before_commit",
    "append.after_commit",
    "fused.before_merge",
    "maintain.before_partials",
    "maintain.after_partials",
    "store.before_merge",
    "store.before_commit",
    "store.after_commit",
    "build.before_slice",
    "build.after_slice",
    "load.before_rename",
    "load.after_rename",
    "fill.before_commit",
    "fill.after_commit",
    "edit.after_catalog",
    "edit.before_commit",
    "edit.after_commit",
    "swap.before_commit",
    "swap.after_commit",
    "beat.before_begin",
    "beat.after_begin",
    "beat.before_end",
    "beat.after_end",
    "retire.before_drop",
    "retire.after_drop",
    "replay.before_commit",
    "replay.after_commit",
    "compact.before_commit",
    "compact.after_commit",
    "upkeep.before_delete",
    "upkeep.before_reclaim",
    "sink.before_commit",
    "sink.after_commit",
    "sink.before_progress",
    "sink.after_progress",
)
_times_passed: dict[str, int] = {}


def fault_point(name: str) -> None:
    """Kill the process or raise here, if HEADRACE_FAULT names this point and the count is reached."""
    faults = os.environ.get(VARIABLE)
    if not faults:
        return
    for fault in _read(faults).split(","):
        point, _, error = fault.strip().partition("=")
        point, _, count = point.partition(":")
        if point != name:
            continue
        if error:
            number = getattr(errno, error)
            raise OSError(number, f"{os.strerror(number)} (injected at {name})")
        _times_passed[fault] = _times_passed.get(fault, 0) + 1
        if _times_passed[fault] >= int(count or 1):  # more, if another thread passed it meanwhile
            os.kill(os.getpid(), signal.SIGKILL)


def _read(faults: str) -> str:
    if not faults.startswith("@"):
        return faults
    try:
        return Path(faults[1:]).read_text()
    except OSError:
        return ""
