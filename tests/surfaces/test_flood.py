"""Floods: memory stays bounded, queries are answered, overload is reported, and acknowledged events are stored."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

from headrace.cli.app import run
from headrace.parse.frames import frame_lines
from headrace.transport.journal.journal_records import list_segments, walk
from tests.surfaces.conftest import visit
from tests.waiting import wait_until

EVENTS = "/v1/streams/visits/events"
MOST_GROWN_MB = 300
MB = 1 << 20


class Flooded:
    """A server in its own process that is queried continuously, with its memory growth."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "tests.surfaces.without_spark", str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip().removeprefix("http://")
        self.accepted = self._posting = 0
        self._counting = threading.Lock()
        wait_until(self._is_up)
        self.post(orjson.dumps([visit()] * 1000), {})
        self._at_first_mb = self._resident_mb()
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._watch), threading.Thread(target=self._ask)]
        self.forget()
        for thread in self._threads:
            thread.start()

    def request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, Counter[str]]:
        connection = http.client.HTTPConnection(self.address, timeout=120)
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            content = orjson.loads(reply.read())
            with self._counting:
                self.accepted += content.get("accepted", 0)
            return reply.status, Counter(name.lower() for name in reply.headers)
        finally:
            connection.close()

    def post(self, body: bytes, headers: dict[str, str]) -> int:
        """The status of a post; a 429 must have a Retry-After header."""
        with self._counting:
            self._posting += 1
        try:
            status, reply_headers = self.request("POST", EVENTS, body, headers)
        finally:
            with self._counting:
                self._posting -= 1
        assert status != 429 or reply_headers["retry-after"]
        return status

    def forget(self) -> None:
        """Start a new measurement."""
        self._largest_mb, self.answers, self.answers_meanwhile = 0.0, 0, 0

    def check(self) -> None:
        """Memory is within its limit, and acknowledged events are stored."""
        assert self.process.poll() is None
        assert self._largest_mb - self._at_first_mb < MOST_GROWN_MB
        assert self._stored_events() == self.accepted

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        self.process.terminate()
        self.process.communicate(timeout=120)
        assert self.process.returncode == 0

    def _is_up(self) -> bool:
        try:
            return self.request("GET", "/v1/views/traffic", None, {})[0] == 200
        except ConnectionRefusedError:
            return False

    def _resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MB

    def _watch(self) -> None:
        while not self._stopped.wait(0.01):
            self._largest_mb = max(self._largest_mb, self._resident_mb())

    def _ask(self) -> None:
        while not self._stopped.wait(0.05):
            if self.request("GET", "/v1/views/traffic", None, {})[0] == 200:
                self.answers += 1
                self.answers_meanwhile += self._posting > 0

    def _stored_events(self) -> int:
        count = 0
        for segment in list_segments(self.folder / "data" / "journal" / "visits"):
            data = segment.path.read_bytes()
            for record in walk(segment, segment.start, segment.end):
                end = record.end - segment.start
                count += len(frame_lines(data[end - record.payload_bytes : end]))
        return count


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flooded]:
    folder = tmp_path_factory.mktemp("flood") / "shop"
    assert run(["init", str(folder)]) == 0
    assert run(["apply", "--yes", "-w", str(folder)]) == 0
    server = Flooded(folder)
    yield server
    server.stop()


def test_large_bodies_from_many_clients_at_once(flooded: Flooded) -> None:
    flooded.forget()
    line = orjson.dumps(visit())
    count = 10 * MB // len(line)
    bodies = [
        ((line + b"\n") * count, {"content-type": "application/x-ndjson"}),
        (b"[" + b",".join([line] * count) + b"]", {"content-type": "application/json"}),
    ]
    with ThreadPoolExecutor(24) as clients:
        statuses = Counter(clients.map(lambda number: flooded.post(*bodies[number % 2]), range(36)))
    assert set(statuses) == {200, 429}
    assert flooded.answers_meanwhile > 0, "an answer waited for all bodies"
    flooded.check()


def gzip_bomb() -> bytes:
    """10 MB that unpack to 10 GB: a block of zeros that refers to nothing before it, again and again."""
    packer = zlib.compressobj(9, wbits=-15)
    block = packer.compress(b"\0" * (16 * MB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + block * (10 * MB // len(block))


def zstd_bomb() -> bytes:
    """10 MB that unpack to more than 100 GB: a frame of zeros, again and again."""
    frame = pa.compress(b"\0" * (64 * MB), codec="zstd", asbytes=True)
    return bytes(frame * (10 * MB // len(frame)))


def test_bombs(flooded: Flooded) -> None:
    flooded.forget()
    bombs = [(gzip_bomb(), {"content-encoding": "gzip"}), (zstd_bomb(), {"content-encoding": "zstd"})]
    with ThreadPoolExecutor(12) as clients:
        statuses = Counter(clients.map(lambda number: flooded.post(*bombs[number % 2]), range(16)))
    assert statuses[413] > 0
    assert set(statuses) <= {413, 429}
    assert flooded.answers_meanwhile > 0, "an answer waited for all bodies"
    flooded.check()


def test_a_thousand_open_connections(flooded: Flooded) -> None:
    flooded.forget()
    host, _, port = flooded.address.partition(":")
    head = f"POST {EVENTS} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n".encode()
    starts = [b"", head, head + b"Content-Length: 10000000\r\n\r\n" + b"[" * 60_000]
    lines = []
    try:
        for number in range(1000):
            line = socket.create_connection((host, int(port)), timeout=60)
            line.sendall(starts[number % 3])
            lines.append(line)
        before = flooded.answers
        assert flooded.post(orjson.dumps([visit()] * 10), {}) == 200
        wait_until(lambda: flooded.answers >= before + 3)
        flooded.check()
    finally:
        for line in lines:
            line.close()
