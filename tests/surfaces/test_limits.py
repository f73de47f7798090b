"""What a connection may take: its headers, its body, its time; what is too much is said, and kept not at all."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pytest

from headrace.errors import OverloadError
from headrace.web import admission
from headrace.web.admission import Admission
from headrace.web.app import Timeouts
from tests.surfaces.conftest import Served, visit

EVENTS = "/v1/streams/visits/events"
HEAD = f"POST {EVENTS} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


class Line:
    """A connection on which any bytes can be sent."""

    opened: ClassVar[list[Line]] = []  # to be closed when a test has ended

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.opened.append(self)

    def send(self, text: str | bytes) -> Line:
        self.socket.sendall(text.encode() if isinstance(text, str) else text)
        return self

    def reply(self) -> tuple[int, dict[str, str], Any]:
        """Status, headers and what the body says."""
        said = b""
        while b"\r\n\r\n" not in said:
            got = self.socket.recv(65536)
            assert got, f"closed after {said!r}"
            said += got
        head, _, rest = said.partition(b"\r\n\r\n")
        first, *others = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in others)}
        while len(rest) < int(headers["content-length"]):
            rest += self.socket.recv(65536)
        return int(first.split()[1]), headers, orjson.loads(rest)

    def is_closed(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


@pytest.fixture(autouse=True)
def _closed_lines() -> Iterator[None]:
    yield
    while Line.opened:
        Line.opened.pop().socket.close()


def journal_end(served: Served) -> int:
    return served.runtime._pipelines["visits"].transport.end.offset()


def test_slow_headers_are_not_waited_for(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, Timeouts(headers_s=0.3))
    for sent in ("", "POST /v1/stre", HEAD):
        line = Line(served.url).send(sent)
        status, _, said = line.reply()
        assert (status, said["error"]["code"], line.is_closed()) == (408, "too_slow", True)
    kept = Line(served.url)
    for _ in range(2):  # the second request on a connection has its own time
        assert kept.send("GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").reply()[0] == 200
    assert kept.send("GET /hea").reply()[0] == 408


def test_a_slow_body_is_not_waited_for(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, Timeouts(body_s=0.3))
    before = journal_end(served)
    line = Line(served.url).send(HEAD + "Content-Length: 1000\r\n\r\n[")
    status, _, said = line.reply()
    assert (status, said["error"]["code"], line.is_closed()) == (408, "too_slow", True)
    assert "1 bytes in 0 s" in said["error"]["found"]
    assert journal_end(served) == before


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        ("GET /" + "x" * 70_000, 431, "headers_too_long"),
        ("GET /health HTTP/1.1\r\n" + "A: " + "x" * 70_000 + "\r\n", 431, "headers_too_long"),
        ("GET /health HTTP/1.1\r\n" + "A: x\r\n" * 20_000, 431, "headers_too_long"),
        ("nonsense\r\n\r\n", 422, "request"),
    ],
)
def test_what_is_no_request_is_refused_in_our_shape(served: Served, sent: str, status: int, code: str) -> None:
    line = Line(served.url)
    with suppress(BrokenPipeError, ConnectionResetError):  # it may be refused while it is sent
        line.send(sent)
    got, _, said = line.reply()
    assert (got, said["error"]["code"]) == (status, code)


def test_a_body_that_ends_early_leaves_nothing(served: Served) -> None:
    before = journal_end(served)
    whole = orjson.dumps([visit(), visit(1)])
    for length in (len(whole) + 1, 10 << 20):
        line = Line(served.url).send(HEAD + f"Content-Length: {length}\r\n\r\n").send(whole)
        line.socket.close()
    with_key = HEAD + f"Idempotency-Key: cut\r\nContent-Length: {len(whole)}\r\n\r\n"
    Line(served.url).send(with_key).send(whole[:-1]).socket.close()
    again = Line(served.url).send(with_key).send(whole)  # the key was not used up
    assert again.reply()[2]["accepted"] == 2
    one_request = journal_end(served) - before
    assert Line(served.url).send(with_key.replace("cut", "two")).send(whole).reply()[2]["accepted"] == 2
    assert journal_end(served) - before == 2 * one_request


def test_one_connection_too_many_is_told_so(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, max_connections=10)
    health = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    lines = [Line(served.url).send(health) for _ in range(10)]
    assert {line.reply()[0] for line in lines} == {200}
    extra = Line(served.url)
    status, headers, said = extra.reply()
    assert (status, said["error"]["code"], headers["retry-after"]) == (429, "overload", "5")
    assert "max_connections" in said["error"]["expected"]
    assert lines[0].send(health).reply()[0] == 200


def test_bodies_beyond_the_room_for_them_are_sent_away(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, max_body_mb=1, bodies_mb=1)
    waiting = Line(served.url).send(HEAD + f"Content-Length: {900 << 10}\r\n\r\n[")
    events = orjson.dumps([visit(i) for i in range(2500)])
    assert len(events) > 200 << 10
    while (refused := served.http.post(EVENTS, content=events)).status_code == 200:
        pass  # until the server has seen the waiting one
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    assert "bodies_mb" in refused.json()["error"]["expected"]
    assert served.http.post(EVENTS, json=[visit()]).json()["accepted"] == 1  # small ones always find room
    waiting.socket.close()
    while served.http.post(EVENTS, content=events).status_code == 429:
        pass  # until the server has seen that it is gone


def test_room_is_counted_and_given_back() -> None:
    room = Admission(300_000)
    with room.claim(200_000) as first:
        with pytest.raises(OverloadError, match="try again in a moment"), room.claim(200_000):
            pass
        with room.claim(admission.FREE_BYTES), room.claim(100_000) as second:
            second.grow_to(50_000)
            with pytest.raises(OverloadError):
                second.grow_to(100_001)
        first.grow_to(300_000)
    with room.claim(300_000):
        pass
