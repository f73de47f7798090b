"""How long a server takes from its start to the first answer: the first time, and over an existing workspace."""

from __future__ import annotations

import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from bench.ours.events import ONE_VIEW, STREAM, write_file
from bench.ours.figures import Figure, of_runs
from bench.ours.load import Connection
from bench.ours.measure import Tell
from headrace.api.connect import connect
from headrace.errors import HeadraceError
from headrace.tools.demo.shop_server import ShopServer, make_workspace
from headrace.workspace.lease_holder import read_holder

WITHIN_S = 120.0


def starts(tell: Tell, events: int, runs: int) -> list[Figure]:
    """Each run starts three servers: with one event, over the same workspace again, and with a file of events."""
    firsts, agains, files = [], [], []
    for run in range(runs):
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
            folder = Path(name)
            write_file(folder / "one.ndjson", 1)
            write_file(folder / "many.ndjson", events)
            make_workspace(folder / "first", STREAM + ONE_VIEW)
            make_workspace(folder / "second", STREAM + ONE_VIEW)
            firsts.append(_start_and_send(folder / "first", folder / "one.ndjson", 1)[0])
            agains.append(_start_and_ask(folder / "first", 1))
            files.append(_start_and_send(folder / "second", folder / "many.ndjson", events)[1])
        times = f"{firsts[-1]:.1f} s cold, {agains[-1]:.1f} s again, {files[-1]:.1f} s for a file"
        tell(f"start {run + 1} of {runs}: {times}")
    return [
        of_runs("cold start to the first answer", firsts, "s", 15, higher=False),
        of_runs("start over an existing workspace to the first answer", agains, "s", 8, higher=False),
        of_runs(f"first {events:,} events after a cold start, sent to answered", files, "s", 12, higher=False),
    ]


def _start_and_send(folder: Path, file: Path, events: int) -> tuple[float, float]:
    """Seconds until an answer has the events of a file that is sent at once: since the start, and since the sending."""
    start = time.monotonic()
    server = ShopServer(folder)
    try:
        _wait_for_url(server)
        with connect(str(folder)) as connection:
            sent = time.monotonic()
            connection.wait(connection.send("visits", file).token, WITHIN_S)
            _ask(server, events)
        return time.monotonic() - start, time.monotonic() - sent
    finally:
        server.stop()


def _start_and_ask(folder: Path, events: int) -> float:
    """Seconds from the start to an answer with the events that are there."""
    start = time.monotonic()
    server = ShopServer(folder)
    try:
        _wait_for_url(server)
        _ask(server, events)
        return time.monotonic() - start
    finally:
        server.stop()


def _wait_for_url(server: ShopServer) -> None:
    """Until the server accepts connections, which is before Spark has started."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        server.check()
        holder = read_holder(server.folder / "data" / "lease.json")
        if holder and holder.pid == server.pid and holder.url:
            server.url = holder.url
            address = urlsplit(holder.url)
            with suppress(OSError), socket.create_connection((address.hostname, address.port or 0), 1):
                return
        time.sleep(0.02)
    raise HeadraceError("the server accepts no connections", expected=f"some within {WITHIN_S:.0f} s")


def _ask(server: ShopServer, events: int) -> None:
    rows = Connection(server.url).get("/v1/views/traffic?by=&window=1h")["rows"]
    hits = sum(row["hits"] for row in rows)
    if hits != events:
        raise HeadraceError(f"the first answer has {hits:,} events", expected=f"{events:,}")
