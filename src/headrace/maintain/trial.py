"""Computes a version's partials in a process and a Java of their own, to see whether that ends Java.

Started as `python -m headrace.maintain.trial`: a case as one line of JSON on standard input, then a line with a range
of positions for each attempt; one line of JSON on standard output for each. It ends when its Java or its input ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from headrace.define.fingerprint import from_json, to_json
from headrace.define.model import Stream, View
from headrace.disk import is_disk_full
from headrace.errors import UnavailableError
from headrace.lake.storage import LocalStorage
from headrace.lake.table_files import LakeFile
from headrace.maintain.failing_event import FailedCommits, attempt_on
from headrace.spark.build import build_session
from headrace.spark.failures import one_line
from headrace.spark.session import is_alive
from headrace.store.version import Base, Version

NICE = 10  # below the server and its Spark
LOOK_S = 0.2  # how often it is asked whether to stop
ENDED = "its Java process ended"


@dataclass(frozen=True)
class TrialSettings:
    """The Java that the server runs, and where a trial leaves its files for as long as it takes."""

    memory: str
    java_options: str
    scratch: Path
    log: Path


class Trial:
    """Attempts at one case. A process whose Java has ended is replaced by a new one at the next attempt."""

    def __init__(self, case: FailedCommits, settings: TrialSettings, stopping: Callable[[], bool]) -> None:
        self._case = case
        self._settings = settings
        self._stopping = stopping
        self._process: subprocess.Popen[bytes] | None = None

    def attempt(self, low: int, high: int) -> str | None:
        """Compute the events with positions in [low, high); what went wrong, or None."""
        if self._process is None:
            self._process = self._start()
        reply = self._ask(self._process, {"low": low, "high": high})
        if reply is None:
            self.close()
            return ENDED
        error: str | None = reply["error"]
        return error

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._settings.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-s", "-m", "headrace.maintain.trial"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the server
            )
        if self._ask(process, _as_json(self._case, self._settings)) is None:
            process.kill()
            process.wait()
            raise UnavailableError("a trial of a view cannot start", fix=f"see {self._settings.log}")
        return process

    def _ask(self, process: subprocess.Popen[bytes], message: dict[str, Any]) -> dict[str, Any] | None:
        """The reply to a message; None if the process has ended."""
        assert process.stdin is not None
        assert process.stdout is not None
        lines: list[bytes] = []
        stdout = process.stdout
        reader = threading.Thread(target=lambda: lines.append(stdout.readline()), daemon=True)
        try:
            process.stdin.write(orjson.dumps(message) + b"\n")
            process.stdin.flush()
        except OSError:
            return None
        reader.start()
        while reader.is_alive():
            if self._stopping():
                process.kill()
                raise UnavailableError("a trial of a view was stopped: the server is stopping")
            reader.join(LOOK_S)
        return orjson.loads(lines[0]) if lines[0] else None


def _as_json(case: FailedCommits, settings: TrialSettings) -> dict[str, Any]:
    return {
        "stream": to_json(case.stream),
        "view": to_json(case.version.view),
        "patience_ms": case.version.base(case.stream.name).patience_ms,
        "location": case.storage.location,
        "files": [asdict(file) for file in case.files],
        "commits": case.commits,
        "memory": settings.memory,
        "java_options": settings.java_options,
        "scratch": str(settings.scratch),
    }


def _from_json(message: dict[str, Any]) -> FailedCommits:
    stream, view = from_json(message["stream"]), from_json(message["view"])
    assert isinstance(stream, Stream), "a case has a stream"
    assert isinstance(view, View), "a case has a view"
    return FailedCommits(
        stream,
        Version(view, 0, "", "ready", tuple(Base(name, message["patience_ms"]) for name in view.streams)),
        LocalStorage(message["location"]),
        [LakeFile(**file) for file in message["files"]],
        (message["commits"][0], message["commits"][1]),
    )


def main() -> None:
    """Start a Spark, then attempt what is asked for."""
    os.nice(NICE)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Java prints is not a reply
    message = orjson.loads(sys.stdin.buffer.readline())
    case = _from_json(message)
    Path(message["scratch"]).mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="trial-", dir=message["scratch"]))

    def send(reply: dict[str, Any]) -> None:
        replies.write(orjson.dumps(reply) + b"\n")
        replies.flush()

    try:
        _serve(case, message, scratch, send)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(0)  # with its standard input, Java ends, too


def _serve(case: FailedCommits, message: dict[str, Any], scratch: Path, send: Callable[[dict[str, Any]], None]) -> None:
    spark = build_session(
        scratch, master="local[1]", driver_memory=message["memory"], java_options=message["java_options"]
    )
    compute = attempt_on(spark, case)
    send({"error": None})
    for line in sys.stdin.buffer:
        request = orjson.loads(line)
        try:
            compute(request["low"], request["high"])
        except Exception as error:
            if not is_alive(spark) or is_disk_full(error):
                raise
            send({"error": one_line(error)})
        else:
            send({"error": None})


if __name__ == "__main__":
    main()
