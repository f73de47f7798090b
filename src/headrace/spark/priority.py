"""Priorities of the threads of Java: on few cores answers come first, then new commits, then builds."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

JAVA_NICENESS = 5  # of Java, and of the workers of the append
TASK_NICENESS = 10  # of what runs for long in Java itself: tasks of Spark SQL, and compiling their code
# The first task in Python starts the process that workers are forked from, and that has the priority of its thread.
GRACE_S = 1.0
_LONG_RUNNING = ("Executor task", "C1 Comp", "C2 Comp")
_UNNAMED = "java"  # the name of a thread before it has its own


class JavaPriorities:
    """Lowers the priority of each thread once. On Linux each has its own; elsewhere nothing is changed."""

    def __init__(self, pid: int) -> None:
        self._threads = Path(f"/proc/{pid}/task")
        self._done: set[str] = set()
        self._tasks_since: dict[str, float] = {}

    def lower(self) -> None:
        """Lower those of the threads that were started since the last call."""
        with suppress(OSError):  # Java ended
            threads = set(os.listdir(self._threads))
            self._done &= threads  # ids are used again
            self._tasks_since = {thread: s for thread, s in self._tasks_since.items() if thread in threads}
            for thread in threads - self._done:
                with suppress(OSError):  # it ended
                    self._lower(thread, (self._threads / thread / "comm").read_text().strip())

    def _lower(self, thread: str, name: str) -> None:
        niceness = JAVA_NICENESS
        if name.startswith(_LONG_RUNNING):
            now = time.monotonic()
            if now - self._tasks_since.setdefault(thread, now) < GRACE_S:
                return
            niceness = TASK_NICENESS
        if name != _UNNAMED:
            self._done.add(thread)
        # Never raised: the server may have been started with a lower one.
        os.setpriority(os.PRIO_PROCESS, int(thread), max(niceness, os.getpriority(os.PRIO_PROCESS, int(thread))))
