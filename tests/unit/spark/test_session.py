"""Threads of Java that run for long have a lower priority than the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.spark.session import JAVA_NICENESS, TASK_NICENESS

NAMES = {"Executor task l": TASK_NICENESS, "C2 CompilerThre": TASK_NICENESS, "dispatcher-even": JAVA_NICENESS}
LOWEST = 19  # of Linux
# In a process of its own, since the priority of a thread cannot be raised again.
SCRIPT = """
import json, os, sys, threading
from headrace.spark import session

names, end, threads = sys.argv[1:], threading.Event(), {}
for name in names:
    thread = threading.Thread(target=end.wait)
    thread.start()
    threads[name] = thread.native_id
    open(f"/proc/self/task/{thread.native_id}/comm", "w").write(name)
priorities = session.JavaPriorities(os.getpid())
results = []
for session.GRACE_S in (60.0, 0.0):
    priorities.lower()
    results.append({name: os.getpriority(os.PRIO_PROCESS, thread) for name, thread in threads.items()})
print(json.dumps(results))
end.set()
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux has priorities of threads")
@pytest.mark.parametrize("more", [0, JAVA_NICENESS + 1])
def test_long_running_threads_give_way_to_the_others_after_a_moment(more: int) -> None:
    """Whatever the priority of the server itself: none is raised."""
    command = ["nice", "-n", str(more), sys.executable, "-c", SCRIPT, *NAMES]
    at_once, later = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    own = min(os.getpriority(os.PRIO_PROCESS, 0) + more, LOWEST)
    assert at_once == {
        name: max(own, JAVA_NICENESS) if niceness == JAVA_NICENESS else own for name, niceness in NAMES.items()
    }
    assert later == {name: max(own, niceness) for name, niceness in NAMES.items()}
