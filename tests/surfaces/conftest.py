"""Workspaces, commands and servers for the tests of surfaces: all real, most of them without Spark."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from headrace import logs
from headrace.api.server_verbs import ServerVerbs
from headrace.cli.app import run
from headrace.ingest.intake import Ingest
from headrace.server.runtime import Runtime
from headrace.web.application import TIMEOUTS, Timeouts, create_app
from headrace.web.http_server import HttpListener, bind, url_of
from headrace.workspace.lease_holder import live_holder
from headrace.workspace.settings import Workspace
from tests import http
from tests.waiting import wait_until

HEADRACE = Path(sys.executable).with_name("headrace")
ERROR_SHAPE = {"code", "message", "found", "expected", "fix", "where"}  # of every failure


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return orjson.loads(self.out)


@pytest.fixture
def headrace(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs a command in this process."""

    def command(*arguments: object) -> Ran:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A new workspace with the example, nothing applied."""
    path = tmp_path / "shop"
    assert run(["init", str(path)]) == 0
    return path


@pytest.fixture
def applied(folder: Path) -> Path:
    """A workspace whose example is applied."""
    assert run(["apply", "--yes", "-w", str(folder)]) == 0
    return folder


@dataclass(frozen=True)
class Served:
    """A server in this process, over a real runtime without Spark."""

    runtime: Runtime
    url: str
    http: httpx2.Client
    stop: Callable[[], None]

    @property
    def verbs(self) -> ServerVerbs:
        """The verbs of the server, without HTTP."""
        return ServerVerbs(self.runtime)

    def ingest(self, stream: str) -> Ingest:
        """The ingest of a stream, whose limits a test may change."""
        return self.runtime.lookup.pipelines[stream].ingest


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Serves a workspace; its settings may be overridden."""
    stops: list[Callable[[], None]] = []

    def start(folder: Path, timeouts: Timeouts = TIMEOUTS, **settings: Any) -> Served:
        logs.configure("info", folder / "test.log", io.StringIO())
        listener = bind("127.0.0.1", settings.get("port", 0))
        listener.listen()  # requests before the server's thread runs wait for it
        runtime = Runtime.open(Workspace.open(folder, **settings), url_of(listener))
        server = HttpListener(create_app(runtime, timeouts), runtime.workspace.settings.max_connections)
        server.on_stop = runtime.begin_stop
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        client = http.Client(base_url=runtime.url)

        def stop() -> None:
            stops.remove(stop)
            client.close()
            server.stop()
            thread.join()
            runtime.stop()
            listener.close()

        stops.append(stop)
        return Served(runtime, runtime.url, client, stop)

    yield start
    for stop in stops:
        stop()


@pytest.fixture
def served(applied: Path, serve: Callable[..., Served]) -> Served:
    """The example, served without Spark."""
    return serve(applied)


class Up:
    """A `headrace up` process."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.folder = folder
        self._err = tempfile.TemporaryFile("w+")  # noqa: SIM115 - a pipe that nobody reads would fill up
        self.process = subprocess.Popen(
            [str(HEADRACE), "up", "-w", str(folder), "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=self._err,
            text=True,
            env={**os.environ, **environment},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        url = re.search(r"http://\S+", line)
        if not url:
            raise AssertionError(f"up did not start: {line}{self.end()}")
        self.url = url[0]

    def wait_until_ready(self) -> None:
        """Wait until Spark runs."""
        health = f"{self.url}/health"
        wait_until(lambda: http.get(health).json()["status"] != "starting", 300)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Stop it by a signal: exit code, output, errors."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> tuple[int, str, str]:
        """Wait until it has ended: exit code, output, errors."""
        out, _ = self.process.communicate(timeout=180)
        with self._err:
            self._err.seek(0)
            return self.process.returncode, out, self._err.read()


class Holding:
    """A `headrace send` without a server, which waits for its standard input and keeps others waiting."""

    def __init__(self, folder: Path) -> None:
        command = [str(HEADRACE), "send", "visits", "-", "-w", str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        wait_until(lambda: live_holder(folder / "data" / "lease.json"))

    def end(self) -> str:
        return self.process.communicate(orjson.dumps(visit()).decode())[0]


def visit(second: float = 0.0, **fields: Any) -> dict[str, Any]:
    """A visit on 1 March 2026, so many seconds past noon."""
    minute, rest = divmod(second, 60)
    at = f"2026-03-01T{12 + int(minute // 60):02d}:{int(minute % 60):02d}:{rest:06.3f}Z"
    return {"visitor": "ann", "page": "/home", "status": 200, "bytes": 100, "at": at, **fields}


def write_events(path: Path, *events: object) -> Path:
    path.write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in events))
    return path
