"""A turn: a server of its own takes files; its answers must equal DuckDB's before a time counts."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from bench.ours.measure import start_empty_server
from bench.ours.usage import cpu_seconds
from headrace.api.connect import Connection, connect
from headrace.errors import HeadraceError
from headrace.tools.demo.shop_server import ShopServer

MOST_S = 900.0  # for one send
MOST_ROWS = 200_000  # beyond it, totals of each minute are compared instead of all rows
READ = """read_json($files, format = 'newline_delimited', columns = {
    visitor: 'VARCHAR', page: 'VARCHAR', status: 'INTEGER', bytes: 'BIGINT', "at": 'TIMESTAMP'})"""
MEASURES = "count(*) AS hits, sum(bytes)::BIGINT AS bytes, max(bytes) AS largest"
ROWS = f"""SELECT page, time_bucket(INTERVAL 1 MINUTE, "at") AS pane, {MEASURES} FROM {READ} GROUP BY ALL"""
TOTALS = f"""SELECT time_bucket(INTERVAL 1 MINUTE, "at") AS pane, {MEASURES} FROM {READ} GROUP BY ALL"""


@dataclass(frozen=True)
class Files:
    """Files to send: their paths, the number of their events, and the stream with its view of all of them."""

    paths: tuple[Path, ...]
    events: int
    stream: str = "visits"
    view: str = "traffic"


@dataclass(frozen=True)
class Timing:
    """How long it took from the first byte until a query was answered with all events."""

    events: int
    seconds: float
    cpu_s: float  # of server, Spark, workers and client
    memory_mb: int  # of the server, the JVM and all workers, afterwards

    @property
    def rate(self) -> float:
        return self.events / self.seconds

    @property
    def cpu_per_million(self) -> float:
        return self.cpu_s / self.events * 1e6

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def take_turn(definitions: str, warm: Sequence[Files], files: Sequence[Files]) -> list[Timing]:
    """Start a server, send the warm-up files, then time each file; raises an error if an answer is not right."""
    with start_empty_server(definitions) as server:
        for each in warm:  # code is compiled and workers are started on the first events
            time_files(server, each)
        timings = [time_files(server, each) for each in files]
        with connect(str(server.folder)) as connection:
            for stream, view in sorted({(each.stream, each.view) for each in files}):
                paths = [path for each in (*warm, *files) if each.stream == stream for path in each.paths]
                check_rows(connection, view, paths)
    return timings


def time_files(server: ShopServer, files: Files) -> Timing:
    """Send files, wait until every view has them, and ask for one key."""
    before_s = cpu_seconds(server.pid) + _client_s()
    with connect(str(server.folder)) as connection:
        start = time.monotonic()
        reply = connection.send_files(files.stream, files.paths, again=True)  # some turns send the same file
        if not connection.wait(reply.token, MOST_S).complete:
            raise HeadraceError(f"the views did not have {files.paths[0].name} within {MOST_S:.0f} s")
        connection.ask(files.view, key={"page": "/p/1"}, window="1h")
        seconds = time.monotonic() - start
        cpu_s = cpu_seconds(server.pid) + _client_s() - before_s
        return Timing(files.events, seconds, cpu_s, connection.verbs.status().memory_mb or 0)


def check_rows(connection: Connection, view: str, paths: Sequence[Path]) -> None:
    """Compare a view of count, sum and max by page and minute with DuckDB over the same files."""
    files = [str(path) for path in paths]
    with duckdb.connect() as reference:
        expected = reference.execute(ROWS, {"files": files}).fetchall()
        small = len(expected) <= MOST_ROWS
        if not small:
            expected = reference.execute(TOTALS, {"files": files}).fetchall()
    answer = connection.ask(view, window="1m") if small else connection.ask(view, by=(), window="1m")
    names = [name for name, _ in answer.columns]
    at = [names.index(name) for name in (*(["page"] if small else []), "window_start", "hits", "bytes", "largest")]
    served = {tuple(_plain(row[index]) for index in at) for row in answer.values}
    if served != set(expected):
        differences = sorted(served ^ set(expected), key=str)[:3]
        raise HeadraceError(
            f"view '{view}' differs from DuckDB over the same {len(files)} files", found=f"{differences} in one only"
        )


def _plain(value: Any) -> Any:
    """Times without a zone, in UTC, and whole numbers as int, as DuckDB has them."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None)
    return value if isinstance(value, str) else int(value)


def _client_s() -> float:
    """CPU time of this process, which sends the file."""
    times = os.times()
    return times.user + times.system
