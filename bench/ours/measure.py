"""The measurements, each with a real server in its own process."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.ours.events import ONE_VIEW, PAGES, STREAM, arrays
from bench.ours.figures import Figure, of_percentile, of_runs
from bench.ours.load import Connection, at_rate, in_threads
from headrace.errors import HeadraceError
from headrace.tools.demo.shop_server import ShopServer, make_workspace

Tell = Callable[[str], None]
PER_POST = 500
FLOW = 10_000  # events a second
WARM_S = 10.0


@contextmanager
def start_empty_server(definitions: str) -> Iterator[ShopServer]:
    """A ready server over an empty workspace; it is stopped afterwards."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        make_workspace(Path(folder), definitions)
        with start_server(Path(folder)) as server:
            yield server


@contextmanager
def start_server(folder: Path) -> Iterator[ShopServer]:
    """A server over a workspace; if it ends during the measurement, its last log line is the error."""
    server = ShopServer(folder)
    try:
        server.wait_until_ready()
        yield server
    except HeadraceError:
        server.check()
        raise
    finally:
        server.stop()


def serving(seconds: float, tell: Tell) -> list[Figure]:
    """Answers without and with a flow of events, and the rate of HTTP ingest."""
    bodies = arrays(100_000, PER_POST)
    with start_empty_server(STREAM + ONE_VIEW) as server:
        warm = Connection(server.url)
        for body in bodies:
            token = warm.post("/v1/streams/visits/events", body)["token"]
        warm.wait_for_token(token)
        tell("point answers, quiet")
        _answers(server.url, 500)
        quiet = _answers(server.url, 2000)
        tell(f"point answers while {FLOW:,} events/s flow")
        _under_flow(server.url, bodies, WARM_S)
        busy = _under_flow(server.url, bodies, seconds)
        tell("HTTP ingest")
        rates = [_ingest(server.url, bodies) for _ in range(3)]
    return [
        of_runs(f"HTTP ingest, arrays of {PER_POST}", rates, "events/s", 120_000),
        of_percentile("point answer over HTTP, quiet", quiet, 0.5, "ms", 3),
        of_percentile("point answer over HTTP, quiet", quiet, 0.99, "ms", None),
        of_percentile(f"point answer at {FLOW:,} events/s", busy, 0.5, "ms", 5),
        of_percentile(f"point answer at {FLOW:,} events/s", busy, 0.99, "ms", 20),
    ]


def _answers(url: str, count: int) -> list[float]:
    connection = Connection(url)
    return [_answer_ms(connection, number) for number in range(count)]


def _answer_ms(connection: Connection, number: int) -> float:
    """The time of a query of one key and one hour, as of an application."""
    start = time.monotonic()
    answer = connection.get(f"/v1/views/traffic?key.page=/p/{number % PAGES}&window=1h")
    if len(answer["rows"]) < 1:
        raise HeadraceError(f"the answer for /p/{number % PAGES} has no row")
    return (time.monotonic() - start) * 1000


def _under_flow(url: str, bodies: list[bytes], seconds: float) -> list[float]:
    """Milliseconds of answers while events are sent at a constant rate."""
    busy: list[float] = []
    flowing = threading.Event()
    flowing.set()

    def act(role: int) -> None:
        connection = Connection(url)
        if role == 0:
            try:
                for number, _ in at_rate(FLOW / PER_POST, seconds):
                    connection.post("/v1/streams/visits/events", bodies[number % len(bodies)])
            finally:
                flowing.clear()
        else:
            number = 0
            while flowing.is_set():
                busy.append(_answer_ms(connection, number))
                number += 1
                time.sleep(0.02)

    in_threads(2, act)
    return busy


def _ingest(url: str, bodies: list[bytes]) -> float:
    """Acknowledged events per second of four clients, while the pipeline processes them."""
    start = time.monotonic()

    def act(client: int) -> None:
        connection = Connection(url)
        for body in bodies[client::4] * 3:
            connection.post("/v1/streams/visits/events", body)

    in_threads(4, act)
    return 3 * len(bodies) * PER_POST / (time.monotonic() - start)
