"""Limits of a connection: headers, body, time. A request beyond them gets an error, and nothing of it is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

from headrace.errors import OverloadError
from headrace.web import body as admission
from headrace.web.application import Timeouts
from headrace.web.body import BodyAdmission
from tests.surfaces.conftest import Served, visit
from tests.surfaces.line import Line, journal_end

EVENTS = "/v1/streams/visits/events"
HEAD = f"POST {EVENTS} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture(autouse=True)
def _close_lines() -> Iterator[None]:
    yield
    Line.close_all()


def test_slow_headers_time_out(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, Timeouts(headers_s=2.0))  # long enough to send a request on a slow machine
    lines = [Line(served.url).send(text) for text in ("", "POST /v1/stre", HEAD)]
    for line in lines:
        status, _, body = line.reply()
        assert (status, body["error"]["code"], line.is_closed()) == (408, "too_slow", True)
    line = Line(served.url)
    for _ in range(2):  # the second request on a connection has its own timeout
        assert line.send("GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").reply()[0] == 200
    assert line.send("GET /hea").reply()[0] == 408


def test_a_slow_body_times_out(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, Timeouts(body_s=0.3))
    before = journal_end(served)
    line = Line(served.url).send(HEAD + "Content-Length: 1000\r\n\r\n[")
    status, _, body = line.reply()
    assert (status, body["error"]["code"], line.is_closed()) == (408, "too_slow", True)
    assert "1 bytes in 0 s" in body["error"]["found"]
    assert journal_end(served) == before


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("GET /" + "x" * 70_000, 431, "headers_too_long"),
        ("GET /health HTTP/1.1\r\n" + "A: " + "x" * 70_000 + "\r\n", 431, "headers_too_long"),
        ("GET /health HTTP/1.1\r\n" + "A: x\r\n" * 20_000, 431, "headers_too_long"),
        ("GET /health HTTP/1.1\r\n" + "A: " + "x" * 70_000 + "\r\n\r\n", 431, "headers_too_long"),
        ("POST /v1/sql HTTP/1.1\r\nContent-Length: 2\r\nA: " + "x" * 70_000 + "\r\n\r\n{}", 431, "headers_too_long"),
        ("nonsense\r\n\r\n", 422, "request"),
    ],
)
def test_invalid_requests_get_the_usual_error(served: Served, text: str, status: int, code: str) -> None:
    line = Line(served.url)
    with suppress(BrokenPipeError, ConnectionResetError):  # it may be refused while it is sent
        line.send(text)
    reply_status, _, body = line.reply()
    assert (reply_status, body["error"]["code"]) == (status, code)


def test_nothing_of_an_incomplete_body_is_stored(served: Served) -> None:
    before = journal_end(served)
    whole = orjson.dumps([visit(), visit(1)])
    for length in (len(whole) + 1, 10 << 20):
        line = Line(served.url).send(HEAD + f"Content-Length: {length}\r\n\r\n").send(whole)
        line.socket.close()
    with_key = HEAD + f"Idempotency-Key: cut\r\nContent-Length: {len(whole)}\r\n\r\n"
    Line(served.url).send(with_key).send(whole[:-1]).socket.close()
    again = Line(served.url).send(with_key).send(whole)  # the key is still unused
    assert again.reply()[2]["accepted"] == 2
    one_request = journal_end(served) - before
    assert Line(served.url).send(with_key.replace("cut", "two")).send(whole).reply()[2]["accepted"] == 2
    assert journal_end(served) - before == 2 * one_request


def test_one_connection_too_many_is_refused(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, max_connections=10)
    health = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    lines = [Line(served.url).send(health) for _ in range(10)]
    assert {line.reply()[0] for line in lines} == {200}
    extra = Line(served.url)
    status, headers, body = extra.reply()
    assert (status, body["error"]["code"], headers["retry-after"]) == (429, "overload", "5")
    assert "max_connections" in body["error"]["expected"]
    assert lines[0].send(health).reply()[0] == 200


def test_bodies_beyond_the_memory_limit_are_refused(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, max_body_mb=1, bodies_mb=1)
    waiting = Line(served.url).send(HEAD + f"Content-Length: {900 << 10}\r\n\r\n[")
    events = orjson.dumps([visit(i) for i in range(2500)])
    assert len(events) > 200 << 10
    while (reply := served.http.post(EVENTS, content=events)).status_code == 200:
        pass  # until the server has received the waiting one
    assert reply.status_code == 429
    assert reply.headers["retry-after"] == "1"
    assert "bodies_mb" in reply.json()["error"]["expected"]
    assert served.http.post(EVENTS, json=[visit()]).json()["accepted"] == 1  # small ones are always accepted
    waiting.socket.close()
    while served.http.post(EVENTS, content=events).status_code == 429:
        pass  # until the server has noticed that it was closed


def test_memory_of_bodies_is_claimed_and_released() -> None:
    admission_ = BodyAdmission(300_000)
    with admission_.claim(200_000) as first:
        with pytest.raises(OverloadError, match="try again in a moment"), admission_.claim(200_000):
            pass
        with admission_.claim(admission.FREE_BYTES), admission_.claim(100_000) as second:
            second.grow_to(50_000)
            with pytest.raises(OverloadError):
                second.grow_to(100_001)
        first.grow_to(300_000)
    with admission_.claim(300_000):
        pass
