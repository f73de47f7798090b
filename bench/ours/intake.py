"""CPU time of client and server until the events of a file, or of HTTP requests, are acknowledged; without Spark.

`python -m bench.ours.intake` prints the figures; with a folder, it serves the workspace there instead.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.ours.events import STREAM, arrays, write_file
from bench.ours.figures import Figure, of_runs
from bench.ours.load import Connection, in_threads
from headrace.api.connect import connect
from headrace.server.runtime import Runtime
from headrace.tools.demo.shop_server import make_workspace
from headrace.web.application import create_app
from headrace.web.http_server import HttpListener, bind, url_of
from headrace.workspace.settings import Workspace

EVENTS = 1_000_000  # of each run
PER_POST = 500
CLIENTS = 4
RUNS = 5
EVENTS_PATH = "/v1/streams/visits/events"


def intake_figures(runs: int = RUNS, events: int = EVENTS) -> list[Figure]:
    """CPU-seconds per million events of client and server, for a file and for arrays over HTTP."""
    file_seconds: list[tuple[float, float]] = []
    post_seconds: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder, _serving(Path(folder)) as (url, server_cpu_s):
        path = Path(folder) / "visits.ndjson"
        write_file(path, events)
        bodies = arrays(events // 10, PER_POST)

        def send() -> None:
            with connect(url) as connection:
                connection.send("visits", path, again=True)

        def post() -> None:
            in_threads(CLIENTS, lambda client: _post(url, bodies[client::CLIENTS]))

        for act, seconds, count in ((send, file_seconds, events), (post, post_seconds, len(bodies) * PER_POST)):
            act()  # code is imported and connections are made on the first events
            for _ in range(runs):
                client, server = _cpu_of(act, server_cpu_s)
                seconds.append((client * 1e6 / count, server * 1e6 / count))
    return [
        of_runs(f"CPU of the {side} per million events, {what}", [each[index] for each in seconds], "s", higher=False)
        for what, seconds in (("file", file_seconds), (f"arrays of {PER_POST}", post_seconds))
        for index, side in enumerate(("client", "server"))
    ]


def _post(url: str, bodies: list[bytes]) -> None:
    connection = Connection(url)
    for body in bodies:
        connection.post(EVENTS_PATH, body)


def _cpu_of(act: Callable[[], None], server_cpu_s: Callable[[], float]) -> tuple[float, float]:
    client, server = time.process_time(), server_cpu_s()
    act()
    return time.process_time() - client, server_cpu_s() - server


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[str, Callable[[], float]]]:
    """The URL of a server over an empty workspace, in its own process, and its CPU time so far."""
    make_workspace(folder, STREAM)
    command = [sys.executable, "-m", "bench.ours.intake", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), lambda: _cpu_s(process.pid)
        finally:
            process.terminate()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _serve(folder: Path) -> None:
    with bind("127.0.0.1", 0) as listener:
        listener.listen()  # requests as soon as the URL is printed wait for the server
        runtime = Runtime.open(Workspace.open(folder), url_of(listener))
        runtime.definitions.take_over(runtime.definitions.compare().fingerprint)
        server = HttpListener(create_app(runtime), runtime.workspace.settings.max_connections)
        server.on_stop = runtime.stopped.set
        signal.signal(signal.SIGTERM, lambda *_: server.stop())
        sys.stdout.write(f"{runtime.url}\n")
        sys.stdout.flush()
        server.run(sockets=[listener])
        runtime.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _serve(Path(sys.argv[1]))
    else:
        for figure in intake_figures():
            sys.stdout.write(f"{figure.name}: {figure.value:.3f} {figure.unit}\n")
