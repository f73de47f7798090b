"""The measurements, each with a real server in its own process."""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.bench.events import FOUR_MORE, ONE_VIEW, STREAM, arrays, write_file
from headrace.bench.figures import Figure, of_percentile, of_runs
from headrace.bench.load import Connection, call_at_rate, in_threads
from headrace.client.connect import connect
from headrace.demo.server import Server, make_workspace
from headrace.errors import HeadraceError

Tell = Callable[[str], None]
PER_POST = 500
FLOW = 10_000  # events a second
WARM_S = 10.0
WARM_EVENTS = 1_000_000


@contextmanager
def start_empty_server(definitions: str) -> Iterator[Server]:
    """A ready server over an empty workspace; it is stopped afterwards."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        make_workspace(Path(folder), definitions)
        with start_server(Path(folder)) as server:
            yield server


@contextmanager
def start_server(folder: Path) -> Iterator[Server]:
    """A server over a workspace; if it ends during the measurement, its last log line is the error."""
    server = Server(folder)
    try:
        server.wait_until_ready()
        yield server
    except HeadraceError:
        server.check()
        raise
    finally:
        server.stop()


def send_file(server: Server, path: Path) -> float:
    """Send a file and wait until every view has it; returns the seconds."""
    with connect(str(server.folder)) as connection:
        start = time.monotonic()
        reply = connection.send("visits", path, again=True)  # some runs send the same file
        connection.wait(reply.token, 600)
        return time.monotonic() - start


def throughput(definitions: str, path: Path, events: int, runs: int, tell: Tell) -> tuple[list[float], list[int]]:
    """Events a second from file to answered view, and the memory of the whole server after each run."""
    rates, memory = [], []
    with start_empty_server(definitions) as server, tempfile.NamedTemporaryFile(suffix=".ndjson") as small:
        write_file(Path(small.name), WARM_EVENTS, seed=9)
        for _ in range(2):  # code is compiled and workers are started on the first events
            send_file(server, Path(small.name))
        ask = Connection(server.url)
        for run in range(runs):
            rates.append(events / send_file(server, path))
            memory.append(ask.get("/v1/status")["memory_mb"])
            tell(f"run {run + 1} of {runs}: {rates[-1]:,.0f} events/s, {memory[-1]:,} MB")
        hits = sum(row["hits"] for row in ask.get("/v1/views/traffic?by=&window=1h")["rows"])
        if hits != 2 * WARM_EVENTS + events * runs:
            raise HeadraceError(f"the views have {hits:,} events", expected=f"{2 * WARM_EVENTS + events * runs:,}")
    return rates, memory


def file_to_view(events: int, tell: Tell) -> list[Figure]:
    """Throughput with one view and with five, and memory as the log grows."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        path = Path(folder) / "visits.ndjson"
        write_file(path, events)
        tell(f"one view, {events:,} events a run")
        one, memory = throughput(STREAM + ONE_VIEW, path, events, 4, tell)
        tell("five views")
        five, _ = throughput(STREAM + ONE_VIEW + FOUR_MORE, path, events, 2, tell)
    first = of_runs("file to answered view, 1 view", one, "events/s", 450_000)
    more = of_runs("file to answered view, 5 views", five, "events/s")
    return [
        first,
        more,
        Figure("5 views against 1", 100 * more.value / first.value, "%", "of the medians above", 50),
        Figure("memory of the server, most", max(memory), "MB", f"after each run: {memory}", 3000, False),
        Figure(
            f"memory after {4 * events:,} events against {events:,}",
            100 * memory[-1] / memory[0],
            "%",
            f"{memory[0]:,} to {memory[-1]:,} MB",
            110,
            False,
        ),
    ]


def serving(seconds: float, tell: Tell) -> list[Figure]:
    """Answers without and with a flow of events, freshness, and the rate of HTTP ingest."""
    bodies = arrays(100_000, PER_POST)
    with start_empty_server(STREAM + ONE_VIEW) as server:
        warm = Connection(server.url)
        for body in bodies:
            token = warm.post("/v1/streams/visits/events", body)["token"]
        warm.wait_for_token(token)
        tell("point answers, quiet")
        _answers(server.url, 500)
        quiet = _answers(server.url, 2000)
        tell(f"freshness and point answers while {FLOW:,} events/s flow")
        _under_flow(server.url, bodies, WARM_S)
        fresh, busy = _under_flow(server.url, bodies, seconds)
        tell("HTTP ingest")
        rates = [_ingest(server.url, bodies) for _ in range(3)]
    return [
        of_percentile(f"freshness at {FLOW:,} events/s", fresh, 0.5, "s", 1.2),
        of_percentile(f"freshness at {FLOW:,} events/s", fresh, 0.99, "s", 2.5),
        of_runs(f"HTTP ingest, arrays of {PER_POST}", rates, "events/s", 50_000),
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
    answer = connection.get(f"/v1/views/traffic?key.page=/p/{number % 250}&window=1h")
    if len(answer["rows"]) < 1:
        raise HeadraceError(f"the answer for /p/{number % 250} has no row")
    return (time.monotonic() - start) * 1000


def _under_flow(url: str, bodies: list[bytes], seconds: float) -> tuple[list[float], list[float]]:
    """Seconds from the acknowledgement of a post until every view has it; ms of answers meanwhile."""
    fresh: list[float] = []
    busy: list[float] = []
    acknowledged: queue.SimpleQueue[tuple[str, float] | None] = queue.SimpleQueue()
    flowing = threading.Event()
    flowing.set()

    def post(connection: Connection, number: int) -> None:
        token = connection.post("/v1/streams/visits/events", bodies[number % len(bodies)])["token"]
        acknowledged.put((token, time.monotonic()))

    def act(role: int) -> None:
        connection = Connection(url)
        if role == 0:
            call_at_rate(FLOW / PER_POST, seconds, lambda number: post(connection, number))
            acknowledged.put(None)
            flowing.clear()
        elif role == 1:
            # Tokens complete in the order of their posts, so waiting for one after the other is exact.
            while waiting := acknowledged.get():
                connection.wait_for_token(waiting[0])
                fresh.append(time.monotonic() - waiting[1])
        else:
            number = 0
            while flowing.is_set():
                busy.append(_answer_ms(connection, number))
                number += 1
                time.sleep(0.02)

    in_threads(3, act)
    return fresh, busy


def _ingest(url: str, bodies: list[bytes]) -> float:
    """Acknowledged events per second of four clients, while the pipeline processes them."""
    start = time.monotonic()

    def act(client: int) -> None:
        connection = Connection(url)
        for body in bodies[client::4] * 3:
            connection.post("/v1/streams/visits/events", body)

    in_threads(4, act)
    return 3 * len(bodies) * PER_POST / (time.monotonic() - start)
