"""Large bodies that are stored as they come are received past the HTTP parser; clients notice nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from headrace.transport.position import Range
from headrace.web import body as web_body
from headrace.web.application import Timeouts
from tests.surfaces.conftest import Served, visit
from tests.surfaces.line import Line, journal_end
from tests.waiting import wait_until

BODY = b"".join(orjson.dumps(visit(number)) + b"\n" for number in range(20_000))
PATH = "/v1/streams/visits/events?keep_bad=true"
HEAD = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n"
WHOLE = HEAD + f"Content-Length: {len(BODY)}\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture(autouse=True)
def _close_lines() -> Iterator[None]:
    yield
    Line.close_all()


@pytest.fixture(autouse=True)
def received(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the bodies that were received past the parser."""
    sizes: list[int] = []

    class Counted(web_body._Pace):
        def left_s(self, size: int) -> float:
            sizes.append(size)
            return super().left_s(size)

    monkeypatch.setattr(web_body, "_Pace", Counted)
    return sizes


def stored(served: Served) -> bytes:
    reader = served.runtime.lookup.pipelines["visits"].ingest.transport.reader
    parts = reader.read(Range(0, 0, reader.end().offset()), "json")
    return b"".join(line + b"\n" for events in parts for line in events.frames)


@pytest.mark.parametrize("cuts", [(), (1,), (100_000, 100_001), (len(BODY) - 1,)])
def test_a_large_body_is_stored_byte_for_byte_however_it_arrives(
    served: Served, cuts: tuple[int, ...], received: list[int]
) -> None:
    line = Line(served.url).send(WHOLE)
    for start, end in zip((0, *cuts), (*cuts, len(BODY)), strict=True):
        line.send(BODY[start:end])
    status, _, reply = line.reply()
    assert (status, reply["accepted"], reply["refused"]) == (200, 20_000, [])
    assert stored(served) == BODY
    assert received
    name = 'headrace_ingest_bytes_total{stream="visits"} '
    [count] = [line for line in served.http.get("/metrics").text.splitlines() if line.startswith(name)]
    assert float(count.removeprefix(name)) == len(BODY)


def test_the_connection_goes_on_after_a_large_body(served: Served) -> None:
    line = Line(served.url)
    for _ in range(2):  # the next requests follow at once, before the reply
        line.send(WHOLE.encode() + BODY + HEALTH + WHOLE.encode() + BODY)
        assert line.reply()[2]["accepted"] == 20_000
        assert "status" in line.reply()[2]
        assert line.reply()[2]["accepted"] == 20_000
    assert stored(served) == BODY * 4


def test_nothing_of_a_large_body_that_ends_early_is_stored(served: Served) -> None:
    with_key = HEAD + f"Idempotency-Key: cut\r\nContent-Length: {len(BODY)}\r\n\r\n"
    before = journal_end(served)
    for end in (0, 1, 300_000, len(BODY) - 1):
        Line(served.url).send(with_key).send(BODY[:end]).socket.close()
    again = Line(served.url).send(with_key).send(BODY)  # the key is still unused
    assert again.reply()[2]["accepted"] == 20_000
    assert journal_end(served) > before
    assert stored(served) == BODY


def test_a_slow_large_body_times_out(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, Timeouts(body_s=2.0))  # long enough for the good body on a slow machine
    before = journal_end(served)
    line = Line(served.url).send(WHOLE + "{")
    status, _, body = line.reply()
    assert (status, body["error"]["code"], line.is_closed()) == (408, "too_slow", True)
    assert "1 bytes in 2 s" in body["error"]["found"]
    assert journal_end(served) == before
    assert Line(served.url).send(WHOLE.encode() + BODY).reply()[0] == 200


def test_a_client_that_expects_100_continue_gets_it(served: Served) -> None:
    line = Line(served.url).send(HEAD + f"Expect: 100-continue\r\nContent-Length: {len(BODY)}\r\n\r\n")
    assert line.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert line.send(BODY).reply()[2]["accepted"] == 20_000
    assert stored(served) == BODY


def test_bodies_of_unfinished_requests_are_released(served: Served) -> None:
    lines = [Line(served.url).send(WHOLE + "{") for _ in range(20)]
    for line in lines:
        line.socket.close()
    wait_until(lambda: served.http.post(PATH, content=BODY).status_code == 200)
    assert stored(served) == BODY
