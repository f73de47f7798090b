"""A process that has loaded all of Headrace and is forked for each server that is to die. Run by `warm.py`.

It reads one line of JSON per server from its input (folder, log, variables) and tells `started PID` and
`ended PID CODE` on its output. It runs nothing itself: a process with threads must not be forked.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

SCRATCH = "HEADRACE_TEST_SCRATCH"  # where Spark's own files go: they outlive the server that made the context
SLICE_ROWS = "HEADRACE_TEST_SLICE_ROWS"  # so that over few events, too, builds have several slices
GATHER = 3  # small files that make a larger one, where slices are small
PAUSE_S = 0.01


def load_all() -> None:
    """What `headrace up` imports, now or later."""
    import pandas  # noqa: F401
    import pyspark.sql.streaming  # noqa: F401
    import uvicorn.protocols.http.auto  # noqa: F401

    import headrace.cli.run_server
    import headrace.lake.append
    import headrace.lake.replay
    import headrace.maintain.batch_layer
    import headrace.maintain.speed_layer
    import headrace.server.runtime
    import headrace.web.application
    import headrace.web.http_server  # noqa: F401


def serve(work: dict[str, Any]) -> int:
    """`headrace up` in a child of this process."""
    from headrace.cli.app import run

    os.setsid()
    os.chdir(work["folder"])
    out = os.open(work["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(out, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(work["variables"])
    if SLICE_ROWS in os.environ:
        make_small(int(os.environ[SLICE_ROWS]))
    join_spark(Path(os.environ[SCRATCH]))
    return run(["up", "--port", "0"])


def make_small(slice_rows: int) -> None:
    """Make few events take the same steps as many."""
    from headrace.lake.upkeep import Compaction
    from headrace.maintain.batch_layer import BatchLayer, BatchSizes

    BatchLayer.__init__.__kwdefaults__["sizes"] = BatchSizes(slice_rows, near_events=50, small_rows=0)
    Compaction.__init__.__kwdefaults__["gather"] = GATHER


def join_spark(scratch: Path) -> None:
    """Use the context that runs in Java, or start one: the server finds it when it builds a session."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    from headrace.spark.build import build_session

    os.environ["PYSPARK_PYTHON"] = sys.executable  # as build_session does, which later servers do not call
    gateway = launch_gateway()
    module = gateway.jvm.java.lang.Class.forName("org.apache.spark.SparkContext$").getField("MODULE$").get(None)
    active = module.getActive()
    if active.isDefined() and not active.get().isStopped():
        java = gateway.jvm.JavaSparkContext.fromSparkContext(active.get())
        SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jconf=java.getConf()))
    else:
        SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm
        build_session(scratch)


def tell(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def watch() -> None:
    """Fork on demand and report children that end, until the input ends; then kill the others."""
    waiting, children = b"", set[int]()
    while True:
        if select.select([0], [], [], PAUSE_S)[0]:
            piece = os.read(0, 1 << 16)
            if not piece:
                for child in children:
                    os.kill(child, signal.SIGKILL)
                return
            *lines, waiting = (waiting + piece).split(b"\n")
            for line in lines:
                child = os.fork()
                if child == 0:
                    os._exit(serve(json.loads(line)))
                children.add(child)
                tell("started", child)
        while True:
            try:
                child, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not child:
                break
            children.discard(child)
            tell("ended", child, os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    load_all()
    gc.freeze()
    tell("ready", os.getpid())
    watch()
    os._exit(0)
