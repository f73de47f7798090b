"""Real servers that start in two seconds: forked from a loaded process, on a Java that outlives them.

A server is a process of its own, and dies by SIGKILL as any other would. Only Java and Spark's workers are found
warm by the next one: a kill costs about 3 s instead of 15, so that many can be tried. What the dead one left running
in Spark (its query, its jobs) is ended before the next starts, as it ends when Java dies with its server.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.faults import VARIABLE

from .java import OPTIONS, end_java
from .nursery import SCRATCH
from .server import UpServer

START_S = 300


class Java:
    """A Java with Spark in it, for one server at a time, and the process that these are forked from."""

    def __init__(self, scratch: Path) -> None:
        from pyspark.java_gateway import launch_gateway

        self.worker_fault = scratch / "worker-fault"  # the fault of Spark's workers
        log = scratch / "java.log"
        options = f"--driver-memory 1g --driver-java-options '{OPTIONS} -XX:+UseSerialGC -Xss4m' pyspark-shell"
        with pytest.MonkeyPatch.context() as patch, log.open("wb") as out:
            patch.setenv("PYSPARK_SUBMIT_ARGS", options)
            patch.setenv("PYSPARK_PYTHON", sys.executable)
            patch.setenv(VARIABLE, f"@{self.worker_fault}")
            self._gateway: Any = launch_gateway(popen_kwargs={"stdout": out, "stderr": out})
        parameters = self._gateway.gateway_parameters
        self.variables = {
            "PYSPARK_GATEWAY_PORT": str(parameters.port),
            "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
            SCRATCH: str(scratch / "spark"),
            VARIABLE: "",
        }
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery"],
            cwd=Path(__file__).parents[1],
            env={**os.environ, **self.variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._ended: dict[int, int] = {}
        self._listening = threading.Lock()  # a witness asks beside the test: each would read half of a line
        assert self._hear()[0] == "ready"

    def server(self, folder: Path, **variables: str) -> WarmServer:
        """Start one over a workspace. The one before it must be dead."""
        self.end_left_over()
        return WarmServer(self, folder, **variables)

    def end_left_over(self) -> None:
        """Stop the queries and jobs of a server that is dead."""
        default = self._gateway.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession()
        if not default.isDefined() or default.get().sparkContext().isStopped():
            return
        for query in default.get().streams().active():
            query.stop()
        default.get().sparkContext().cancelAllJobs()

    def fork(self, work: dict[str, Any]) -> int:
        """A child of the loaded process."""
        assert self._nursery.stdin is not None
        with self._listening:
            self._nursery.stdin.write(json.dumps(work).encode() + b"\n")
            self._nursery.stdin.flush()
            while (message := self._hear())[0] != "started":
                self._ended[int(message[1])] = int(message[2])
        self._ended.pop(int(message[1]), None)  # of an earlier child with this id
        return int(message[1])

    def code(self, child: int) -> int | None:
        """How a child ended; None while it runs."""
        with self._listening:
            while child not in self._ended and self._is_heard():
                message = self._hear()
                self._ended[int(message[1])] = int(message[2])
            return self._ended.get(child)

    def _is_heard(self) -> bool:
        return bool(select.select([self._nursery.stdout], [], [], 0)[0])

    def _hear(self) -> list[str]:
        """One line, unbuffered, so that select is right."""
        assert self._nursery.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            piece = os.read(self._nursery.stdout.fileno(), 1)
            assert piece, "the nursery is gone"
            line += piece
        return line.decode().split()

    def close(self) -> None:
        """End both."""
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.close()
        self._nursery.wait(120)
        self._nursery.stdout.close()
        end_java(self._gateway)


class _Forked:
    """A child of the nursery, with the interface of a Popen."""

    def __init__(self, java: Java, pid: int) -> None:
        self.pid = pid
        self._java = java

    @property
    def returncode(self) -> int | None:
        return self._java.code(self.pid)

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        deadline = time.monotonic() + (START_S if timeout is None else timeout)
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("headrace up", timeout or START_S)
            time.sleep(0.01)
        return code


class WarmServer(UpServer):
    """`headrace up` in a forked process."""

    def __init__(self, java: Java, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.log = folder / f"up-{time.monotonic_ns()}.log"
        settings = {"HEADRACE_REHEARSE": "false", **java.variables, **variables}
        self.process = _Forked(java, java.fork({"folder": str(folder), "log": str(self.log), "variables": settings}))
        self._begin()
