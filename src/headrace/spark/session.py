"""A Spark session without PySpark itself: its Java process, and the priorities of the threads of that; `build.py`
builds one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import MachineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Session = Callable[[], "SparkSession"]  # the current session; NotReadyError while a server starts Java

OLDEST_JAVA = 17
# Java's optimizing compiler as usual for loops over events, but later for methods that are only called often: planning
# many small jobs would otherwise keep it busy for minutes.
QUICK_JAVA = "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
_JAVA_FIX = "install a JDK 17 or newer (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"

# New commits before history: a free core goes to the speed layer while that has a waiting task. Builds take the rest.
# The names are those that append, maintain and the batch layer set for their jobs.
SPEED_POOLS = ("append", "maintain")
BATCH_POOL = "batch"


def java_command() -> str:
    """The Java command for Spark. Raises if there is none, or it is too old."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not command or not Path(command).exists():
        raise MachineError(
            "Java was not found",
            found=f"JAVA_HOME={home}" if home else None,
            expected="Java 17 or newer",
            fix=_JAVA_FIX,
        )
    output = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', output)
    if not version or int(version.group(1)) < OLDEST_JAVA:
        line = f"version {version.group(1)}" if version else f"{output.strip().splitlines()[:1]}"
        raise MachineError("Java is too old", found=line, expected="Java 17 or newer", fix=_JAVA_FIX)
    return command


def java_process(session: SparkSession) -> subprocess.Popen[bytes] | None:
    """The Java process that this process started for a session; None if another process started it."""
    return java_of(session.sparkContext._gateway)


def java_of(gateway: object) -> subprocess.Popen[bytes] | None:
    """The Java process of a gateway of PySpark, if this process started it."""
    return getattr(gateway, "proc", None)


def executors(session: SparkSession) -> int:
    """The number of executors that a session has; the driver counts as one if tasks run in it."""
    context = session.sparkContext._jsc.sc()
    others = context.getExecutorMemoryStatus().size() - 1  # the driver is in it, too
    return int(others) + bool(context.isLocal())


def is_alive(session: SparkSession) -> bool:
    """Whether Java still runs and answers; distinguishes a failed job from a crash of Java."""
    java = java_process(session)
    if java is not None and java.poll() is not None:
        return False
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except Exception:  # errors of Py4J and of the system have no common base; a discarded context has no _jsc
        return False


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
