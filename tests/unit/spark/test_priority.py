"""Threads of Java that run for long have a lower priority than the others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.spark.priority import JAVA_NICENESS, TASK_NICENESS

NAMES = {"Executor task l": TASK_NICENESS, "C2 CompilerThre": TASK_NICENESS, "dispatcher-even": JAVA_NICENESS}
# In a process of its own, since the priority of a thread cannot be raised again.
SCRIPT = """
import json, os, sys, threading
from headrace.spark import priority

names, end, threads = sys.argv[1:], threading.Event(), {}
for name in names:
    thread = threading.Thread(target=end.wait)
    thread.start()
    threads[name] = thread.native_id
    open(f"/proc/self/task/{thread.native_id}/comm", "w").write(name)
priorities = priority.JavaPriorities(os.getpid())
results = []
for priority.GRACE_S in (60.0, 0.0):
    priorities.lower()
    results.append({name: os.getpriority(os.PRIO_PROCESS, thread) for name, thread in threads.items()})
print(json.dumps(results))
end.set()
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux has priorities of threads")
def test_long_running_threads_give_way_to_the_others_after_a_moment() -> None:
    output = subprocess.run([sys.executable, "-c", SCRIPT, *NAMES], capture_output=True, text=True, check=True).stdout
    at_once, later = json.loads(output)
    assert at_once == {name: JAVA_NICENESS if niceness == JAVA_NICENESS else 0 for name, niceness in NAMES.items()}
    assert later == NAMES
