"""`headrace send` interrupted in every way and repeated by the same command: each event is stored exactly once.

With HEADRACE_SEND_EVENTS=2000000, that many events are sent to servers with Spark, and a view must count them too.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from headrace.api.connect import Connection, connect
from headrace.api.remote import RemoteWorkspace
from headrace.cli.app import run
from headrace.errors import UnavailableError
from headrace.transport.journal.journal_records import list_segments, walk
from headrace.workspace.settings import Workspace
from tests.proxy import Proxy
from tests.server import UpServer
from tests.surfaces.conftest import HEADRACE
from tests.waiting import wait_until

FULL = "HEADRACE_SEND_EVENTS" in os.environ
EVENTS = int(os.environ.get("HEADRACE_SEND_EVENTS", "120000"))
DEFINITION = """
CREATE STREAM marks (n BIGINT NOT NULL, pad STRING, at TIMESTAMP NOT NULL);
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(n) AS numbers, max(n) AS last FROM marks;
"""


class Server:
    """The server of a workspace in another process, behind a proxy; without Spark unless FULL."""

    def __init__(self, folder: Path, proxy: Proxy) -> None:
        self.folder = folder
        self.proxy = proxy
        self._up: UpServer | None = None
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        if FULL:
            self._up = UpServer(self.folder).wait_for_http()
            self.proxy.lead_to(self._up.url)
            return
        command = [sys.executable, "-m", "tests.surfaces.without_spark", str(self.folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.proxy.lead_to(self._process.stdout.readline().strip())

    def kill(self) -> None:
        if self._up:
            self._up.kill()
            self._up = None
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def count_in_view(self) -> dict[str, int] | None:
        """The row of the view when it has all events; None without Spark."""
        if not self._up:
            return None
        server = self._up.wait_until_ready()
        wait_until(lambda: server.status_of("marks")["backlog_bytes"] == 0, 300, server.log_tail)
        wait_until(
            lambda: server.rows("total") and server.get("/v1/views/total")["freshness_ms"] == 0, 300, server.log_tail
        )
        [row] = server.rows("total")
        return {name: row[name] for name in ("n", "numbers", "last")}


class Sender:
    """The command, in another process."""

    def __init__(self, file: Path, url: str) -> None:
        self.err: IO[str] = (file.parent / "sender.err").open("w+")
        command = [str(HEADRACE), "send", "marks", str(file), "-w", url]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.err, text=True)

    def end(self) -> tuple[int, str]:
        """Its exit code and its output."""
        out, _ = self.process.communicate(timeout=300)
        with self.err:
            self.err.seek(0)
            return self.process.returncode, out + self.err.read()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    (folder / "definitions").mkdir(parents=True)
    (folder / "definitions" / "marks.sql").write_text(DEFINITION)
    (folder / "headrace.toml").write_text("rehearse = false\n")
    assert run(["apply", "--yes", "-w", str(folder)]) == 0
    return folder


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    yield proxy
    proxy.close()


@pytest.fixture
def server(workspace: Path, proxy: Proxy) -> Iterator[Server]:
    server = Server(workspace, proxy)
    yield server
    server.kill()


def write_events(file: Path, start: int, stop: int, pad: int = 20 if FULL else 160) -> None:
    padding = "x" * pad
    with file.open("a") as out:
        for n in range(start, stop):
            out.write(f'{{"n":{n},"pad":"{padding}","at":"2026-04-01T{n // 200_000:02d}:00:00Z"}}\n')


def stored_numbers(workspace: Path) -> list[int]:
    """The numbers of all events in the journal, in order; none is old enough to be removed."""
    numbers = []
    for segment in list_segments(workspace / "data" / "journal" / "marks"):
        data = segment.path.read_bytes()
        for record in walk(segment, segment.start, segment.end):
            payload = data[record.payload_position - segment.start : record.end - segment.start]
            numbers += [int(number) for number in re.findall(rb'\{"n":(\d+),', payload)]
    return numbers


def test_interrupted_five_times_each_event_is_stored_once(workspace: Path, proxy: Proxy, server: Server) -> None:
    file = workspace / "marks.ndjson"
    write_events(file, 0, EVENTS)
    size = file.stat().st_size
    part = size // 8 + 1234  # in the middle of a piece
    server.start()

    # The server is killed: the command continues with the next one.
    proxy.hold_after(part)
    sender = Sender(file, proxy.url)
    wait_until(lambda: proxy.holds)
    server.kill()
    proxy.cut()
    proxy.hold_after(part)  # before anything can pass
    server.start()
    wait_until(lambda: proxy.holds)

    # The sender is killed.
    sender.process.kill()
    assert sender.end()[0] == -signal.SIGKILL
    proxy.cut()  # what the system still has of its piece would arrive while the next command runs
    proxy.mend()

    # Ctrl-C: it prints how many events are stored.
    proxy.hold_after(part)
    sender = Sender(file, proxy.url)
    wait_until(lambda: proxy.holds)
    sender.process.send_signal(signal.SIGINT)
    proxy.release()
    code, output = sender.end()
    assert code == 130
    assert f"{len(stored_numbers(workspace)):,} events are kept; the same command continues where it stopped" in output

    # The network is cut for a while.
    proxy.hold_after(part)
    sender = Sender(file, proxy.url)
    wait_until(lambda: proxy.holds)
    proxy.cut()
    wait_until(lambda: "waiting: the server at" in (workspace / "sender.err").read_text())
    proxy.hold_after(part)
    proxy.mend()
    wait_until(lambda: proxy.holds)

    # The machine stops: server and sender at once.
    server.kill()
    sender.process.kill()
    sender.end()
    proxy.cut()
    before = len(stored_numbers(workspace))
    assert 0 < before < EVENTS
    server.start()
    code, output = Sender(file, proxy.url).end()
    assert code == 0, output
    assert f"{EVENTS - before:,} events sent" in output
    assert f"{before:,} events sent before" in output
    numbers = np.array(stored_numbers(workspace))
    assert (numbers == np.arange(EVENTS)).all()

    code, output = Sender(file, proxy.url).end()
    assert (code, f"Nothing new in '{file}': {EVENTS:,} events sent before" in output) == (0, True), output
    assert len(stored_numbers(workspace)) == EVENTS
    if FULL:
        assert server.count_in_view() == {"n": EVENTS, "numbers": EVENTS * (EVENTS - 1) // 2, "last": EVENTS - 1}

    # The file has grown: the new events are sent.
    write_events(file, EVENTS, EVENTS + 10)
    assert "10 events sent" in Sender(file, proxy.url).end()[1]
    assert stored_numbers(workspace)[-10:] == list(range(EVENTS, EVENTS + 10))


def test_a_lost_server_leaves_an_exact_count(workspace: Path, proxy: Proxy, server: Server) -> None:
    file = workspace / "marks.ndjson"
    write_events(file, 0, 60_000, pad=160)  # several pieces, some of which arrive complete
    server.start()
    for part in (2, 3):  # so that complete pieces are told from incomplete ones
        proxy.hold_after(file.stat().st_size * part // 5)
        remote = RemoteWorkspace(proxy.url, workspace=Workspace.open(workspace), retry_for_s=0.5)
        with Connection(remote) as connection, ThreadPoolExecutor() as pool:
            sending = pool.submit(connection.send_files, "marks", [file])
            wait_until(lambda: proxy.holds)
            server.kill()
            proxy.cut()
            error = sending.exception(180)
        assert isinstance(error, UnavailableError)
        assert (
            f"{len(stored_numbers(workspace)):,} events are kept; the same command continues where it stopped"
            in str(error)
        )
        server.start()
    with connect(workspace) as connection:
        connection.send("marks", file)
    assert stored_numbers(workspace) == list(range(60_000))
