"""Lines over a socket and files of a folder, while the server and the sender are killed: each is counted once."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headrace.cli.app import run
from tests.server import UpServer
from tests.waiting import wait_until
from tests.warm import Java

DEFINITIONS = """
CREATE STREAM lines (value STRING, number BIGINT AS CAST(split_part(value, ' ', 1) AS BIGINT)) FORMAT TEXT;
CREATE MATERIALIZED VIEW total AS
SELECT count(*) AS n, sum(number) AS numbers, sum(number * number) AS squares FROM lines;
"""
HEADRACE = Path(sys.executable).with_name("headrace")
LINES = 20_000
EXPECTED = (LINES, sum(range(LINES)), sum(n * n for n in range(LINES)))  # lost and repeated lines cannot make these


class Source:
    """A `headrace send` of a source."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / f"send-{time.monotonic_ns()}.log"
        command = [str(HEADRACE), "send", "lines", *arguments, "-w", str(folder)]
        with self.log.open("wb") as err:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err)

    @property
    def port(self) -> int:
        listening = re.compile(r"listening on \S+:(\d+)\.")
        wait_until(lambda: listening.search(self.log.read_text()), details=self.log.read_text)
        return int(listening.findall(self.log.read_text())[0])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(180) == 0, self.log.read_text()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "lines"
    assert run(["init", str(folder)]) == 0
    (folder / "definitions" / "shop.sql").write_text(DEFINITIONS)
    return folder


def total(server: UpServer) -> tuple[int, int, int]:
    rows = server.rows("total")
    return (rows[0]["n"], rows[0]["numbers"], rows[0]["squares"]) if rows else (0, 0, 0)


def test_a_socket_while_the_server_is_killed(workspace: Path, java: Java) -> None:
    server = java.server(workspace).wait_until_ready()
    source = Source(workspace, "--listen", "127.0.0.1:0")
    port = source.port
    stored = threading.Event()
    progress = 0

    def feed() -> None:
        nonlocal progress
        with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
            for progress in range(0, LINES, 100):
                connection.sendall(b"".join(b"%d some words\n" % n for n in range(progress, progress + 100)))
                time.sleep(0.02)  # so that the kills come while lines do
            connection.shutdown(socket.SHUT_WR)
            if connection.recv(1) == b"":
                stored.set()

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        for share in (0.2, 0.5):
            wait_until(lambda share=share: progress >= share * LINES)
            server.kill()
            server = java.server(workspace).wait_until_ready()
        feeding.join(300)
        assert stored.is_set()  # the connection was closed in order: all lines are in the log
        wait_until(lambda: total(server) == EXPECTED, 300, lambda: total(server))
        source.stop()
    finally:
        source.kill()
        UpServer.kill_all()


def test_a_folder_while_server_and_sender_are_killed(workspace: Path, java: Java, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    server = java.server(workspace).wait_until_ready()
    source = Source(workspace, "--watch", str(inbox))
    kills = {4_000: "sender", 8_000: "server", 12_000: "both", 16_000: "sender"}
    try:
        for start in range(0, LINES, 500):
            lines = b"".join(b"%d of a file\n" % n for n in range(start, start + 500))
            if start % 1000:  # every second one is appended to a log that is rotated
                with (inbox / "app.log").open("ab") as log:
                    log.write(lines)
                if start % 5000 == 500:
                    (inbox / "app.log").rename(inbox / f"app-{start}.log")
            else:
                (inbox / ".part").write_bytes(lines)
                os.rename(inbox / ".part", inbox / f"{start}.txt")
            time.sleep(0.05)
            match kills.get(start):
                case "sender":
                    source.kill()
                    source = Source(workspace, "--watch", str(inbox))
                case "server":
                    server.kill()
                    server = java.server(workspace).wait_until_ready()
                case "both":
                    source.kill()
                    server.kill()
                    server = java.server(workspace).wait_until_ready()
                    source = Source(workspace, "--watch", str(inbox))
        wait_until(lambda: total(server) == EXPECTED, 300, lambda: (total(server), source.log.read_text()))
        source.stop()
    finally:
        source.kill()
        UpServer.kill_all()
