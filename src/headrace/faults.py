"""Named points where a test may kill the process, to see what survives. Off unless asked for."""

from __future__ import annotations

import os
import signal
from functools import cache

VARIABLE = "HEADRACE_FAULT"  # "<point>" or "<point>:<n>": die when the point is passed the n-th time

POINTS = (
    "journal.before_write",
    "journal.before_fsync",
    "journal.after_fsync",
    "append.in_worker",
    "append.before_commit",
    "append.after_commit",
    "maintain.before_partials",
    "maintain.after_partials",
    "store.before_merge",
    "store.before_commit",
    "store.after_commit",
)
_passed: dict[str, int] = {}


@cache
def _armed() -> tuple[str, int] | None:
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return None
    point, _, count = wanted.partition(":")
    return point, int(count or 1)


def fault_point(name: str) -> None:
    """Die here, as by kill -9, if this point is the armed one and its turn has come."""
    armed = _armed()
    if armed is None or armed[0] != name:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if _passed[name] == armed[1]:
        os.kill(os.getpid(), signal.SIGKILL)
