"""The process of a contender: started, given jobs, and ended with everything that it started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from bench.contenders.job import JARS, LOG
from bench.ours.usage import cpu_seconds
from bench.record import ROOT
from headrace.errors import HeadraceError

PYFLINK = ROOT / ".bench" / "pyflink" / "bin" / "python"
MOST_S = 600.0  # for a start or a job
STOP_S = 30.0


@dataclass(frozen=True)
class Contender:
    """Another engine: the interpreter of its environment, and the module that runs the job, with its arguments."""

    name: str
    python: Path
    module: str
    arguments: tuple[str, ...] = ()
    jars: Path | None = None  # that it needs

    @property
    def is_installed(self) -> bool:
        return self.python.exists() and (self.jars is None or self.jars.exists())


SPARK = Contender("plain Structured Streaming", Path(sys.executable), "bench.contenders.spark_job")
SPARK_LOG = replace(SPARK, name="Structured Streaming with a log", arguments=(LOG,))
FLINK = Contender("PyFlink", PYFLINK, "bench.contenders.flink_job")
FLINK_LOG = replace(FLINK, name="PyFlink with a log", arguments=(LOG,))
DUCKDB = Contender("DuckDB alone", Path(sys.executable), "bench.contenders.duckdb_query")
SPARK_KAFKA = Contender(
    "Structured Streaming with Spark's Kafka connector",
    Path(sys.executable),
    "bench.contenders.spark_kafka",
    jars=ROOT / JARS / "spark",
)
FLINK_KAFKA = Contender(
    "PyFlink with Flink's Kafka connector", PYFLINK, "bench.contenders.flink_kafka", jars=ROOT / JARS / "flink"
)
CONTENDERS = (SPARK, SPARK_LOG, FLINK, FLINK_LOG, DUCKDB)


class ContenderProcess:
    """A contender that is ready; use it in a `with` block."""

    def __init__(self, contender: Contender, folder: Path) -> None:
        self._contender = contender
        self._log = folder / "output.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [contender.python, "-m", contender.module, *contender.arguments],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        try:
            self.version = str(self._read()["version"])
        except HeadraceError:
            self.end()
            raise

    def __enter__(self) -> ContenderProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Let it end; whatever is left is killed."""
        pipe(self._process.stdin).close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        with suppress(ProcessLookupError):  # what is left, such as its Java
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        pipe(self._process.stdout).close()

    def run(self, files: list[Path], folder: Path, **source: str) -> tuple[float, float]:
        """Run the job over files, or a topic; the seconds, and the CPU seconds of the process and its descendants."""
        before_s = cpu_seconds(self._process.pid)
        job = {"files": [str(file) for file in files], "folder": str(folder), "rows": str(folder / "rows.csv")}
        job |= source
        pipe(self._process.stdin).write(json.dumps(job) + "\n")
        pipe(self._process.stdin).flush()
        seconds = float(self._read()["seconds"])
        return seconds, cpu_seconds(self._process.pid) - before_s

    def _read(self) -> dict[str, Any]:
        """The next reply; engines print other lines, too."""
        timer = threading.Timer(MOST_S, self._process.kill)
        timer.start()
        try:
            for line in pipe(self._process.stdout):
                if line.startswith("{"):
                    return dict(json.loads(line))
        finally:
            timer.cancel()
        lines = self._log.read_text(errors="replace").strip().splitlines()
        raise HeadraceError(f"{self._contender.name} ended", found="; ".join(lines[-3:]) or "no output")


def pipe(stream: IO[str] | None) -> IO[str]:
    """A pipe of a process that was opened with it."""
    assert stream is not None
    return stream
