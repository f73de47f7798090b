"""Requests while definitions change: dropped objects are absent or a 404, and nothing is ever a 500."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx2
import orjson
import pytest

from headrace.errors import NotFoundError, UnavailableError
from tests.surfaces.conftest import Served, visit

STREAMS = "".join(
    f"CREATE STREAM s{n} (id BIGINT, kind STRING, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);\n"
    for n in range(3)
)
VIEWS = "".join(
    f"CREATE MATERIALIZED VIEW v{n} AS SELECT kind, count(*) AS n FROM s{n % 3} GROUP BY kind, window(at, '1 hour');\n"
    for n in range(6)
)
EDITED = VIEWS.replace("AS n FROM", "AS n, max(id) AS most FROM")
MOVED = VIEWS.replace("FROM s0", "FROM s1")
# Created, edited, made to read another stream, dropped with and without their streams.
ROUND = (STREAMS + VIEWS, STREAMS + EDITED, STREAMS + MOVED, STREAMS, "")
NAMES = {
    "view": ("v1", "traffic"),
    "stream": ("s1", "visits"),
    "table": ("t1",),
    "position": ("0",),
    "token": ("s1.0", "visits.0"),
    "name": ("reader",),  # a subscription
}
ENDLESS = ("/tail", "/changes")  # they reply as long as the reader listens


def reading_requests(client: httpx2.Client) -> Iterator[tuple[str, str, bytes | None]]:
    """Every endpoint that reads, for objects that change and that do not: method, path and body."""
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        if "get" in methods and not path.endswith(ENDLESS):
            used = [name for name in NAMES if f"{{{name}}}" in path]
            for values in itertools.product(*(NAMES[name] for name in used)):
                query = "?name=a.ndjson" if path.endswith("/files") else ""
                yield "GET", path.format(**dict(zip(used, values, strict=True))) + query, None
    for path in ("/", "/views/v1", "/views/traffic", "/views/v1/explain?key.kind=a"):
        yield "GET", path, None
    yield "GET", "/v1/views/v1?version_as_of=0", None
    for view in NAMES["view"]:
        yield "POST", "/v1/sql", orjson.dumps({"query": f"SELECT count(*) FROM {view}"})
        yield "POST", f"/v1/views/{view}/lookup", b"{}"
    yield "POST", "/v1/streams/s1/events", b'{"id": 1, "kind": "a", "at": "2026-03-01T12:00:00Z"}'


class Editor:
    """Changes the definitions in a loop."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._ended = threading.Event()
        self.rounds = 0

    def run(self) -> None:
        file = self._served.runtime.workspace.definitions / "changing.sql"
        try:
            while not self._ended.is_set():
                for text in ROUND:
                    file.write_text(text)
                    self._served.verbs.apply()
                self.rounds += 1
        finally:
            self._ended.set()

    def is_early(self) -> bool:
        """Whether the definitions have not changed twice yet, and will."""
        return self.rounds < 2 and not self._ended.is_set()

    def end(self) -> None:
        self._ended.set()


@pytest.fixture
def editor(served: Served) -> Iterator[Editor]:
    """At work; an apply that fails fails the test."""
    editor = Editor(served)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(editor.run)
        yield editor
        editor.end()
        future.result()


def test_no_request_fails_while_definitions_change(served: Served, editor: Editor) -> None:
    requests = list(reading_requests(served.http))
    assert len(requests) > 25
    statuses: Counter[tuple[str, int]] = Counter()

    def read(turn: int) -> None:
        method, path, body = requests[turn % len(requests)]
        reply = served.http.request(method, path, content=body)
        statuses[path, reply.status_code] += 1
        if path == "/health":
            assert reply.status_code == 200, reply.text
        assert reply.status_code in (200, 400, 404, 429, 503), (path, reply.text)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(20 * len(requests))))
        while editor.is_early():  # on a slow machine
            list(pool.map(read, range(len(requests))))
    assert {status for (path, status) in statuses if path == "/v1/views"} == {200}
    log = (served.runtime.workspace.folder / "test.log").read_text()
    assert "request failed" not in log, log[-3000:]


def test_the_state_of_a_server_is_consistent(served: Served, editor: Editor) -> None:
    """The same without HTTP, so that it is read thousands of times."""
    runtime, until = served.runtime, time.monotonic() + 4

    def read_state() -> None:
        while editor.is_early() or time.monotonic() < until:
            served.verbs.views()
            runtime.monitor.timings()
            runtime.monitor.health()
            served.verbs.streams()
            with suppress(NotFoundError):
                served.verbs.versions("v0")
            with suppress(NotFoundError):
                runtime.tokens.state("s0.0")

    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(read_state) for _ in range(3)]
    for each in futures:
        each.result()


def test_a_dropped_stream_refuses_events_in_flight(served: Served) -> None:
    journal = served.runtime.lookup.pipelines["visits"].transport
    journal.close()  # as an apply does, while requests still have the stream
    with pytest.raises(UnavailableError, match=r"stream 'visits' accepts no more events"):
        journal.submit(b"{}\n", 1, [])
    assert served.http.post("/v1/streams/visits/events", json=visit()).status_code == 503
