"""A store with a view that changes, a lake that grows, an HTTP server that records, and the sinks over them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from bench.ours.lake import add_commit

from headrace.define.catalog import Catalog, parse
from headrace.define.fingerprint import fingerprint
from headrace.define.model import Stream, View
from headrace.deliver.event_log import EventLog
from headrace.deliver.sinks.files_sink import TEMPORARY
from headrace.deliver.sinks.running_sinks import Sinks
from headrace.lake.delta_table import LakeTable
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Step, Store
from headrace.transport.position import Position
from headrace.workspace.settings import Settings, Workspace
from tests.contracts.store.layers import find, serving, write
from tests.unit.store.partial_files import Event, simple_event
from tests.waiting import wait_until

BASE = """
CREATE STREAM events (k0 STRING, b BIGINT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 0 SECONDS);
CREATE MATERIALIZED VIEW v AS SELECT k0, count(*) AS n FROM events GROUP BY k0, window(at, '1 minute');
CREATE MATERIALIZED VIEW total AS SELECT k0, count(*) AS n FROM events GROUP BY k0;
CREATE STREAM s (id BIGINT, at TIMESTAMP);
"""
MINUTE = 60_000
Row = dict[str, Any]


class Bench:
    """Everything that sinks need, without Spark."""

    def __init__(self, folder: Path, base: str = BASE) -> None:
        self.folder, self.base = folder, base
        (folder / "partials").mkdir(exist_ok=True)
        self.catalog = parse(base)
        self.events: list[list[Event]] = []
        self.store: Store = DuckStore.open(folder / "store", 1)
        for view in self.views:
            if not any(version.view.name == view.name for version in self._versions()):
                self.store.register(view, fingerprint(view), {"events": 0})
        self.lake = LakeTable(folder / "lake", self.stream, fence=1)
        log = EventLog(self.lake, lambda: self.stream)
        self.sinks = Sinks(self.store, Workspace(folder, Settings()), lambda name: log)

    @property
    def views(self) -> list[View]:
        return list(self.catalog.views.values())

    @property
    def stream(self) -> Stream:
        return self.catalog.streams["s"]

    def _versions(self) -> list[Any]:
        with self.store.snapshot() as snapshot:
            return snapshot.versions()

    def run(self, text: str) -> Catalog:
        """Run the sinks of a text, and no others."""
        self.catalog = parse(self.base + text)
        self.sinks.reconcile(self.catalog)
        return self.catalog

    def commit(self, *events: tuple[str, int]) -> None:
        """A commit of events (key, minute) that both views have when this returns."""
        self.events.append([simple_event(key, minute * MINUTE) for key, minute in events])
        newest = max(event.at_ms for commit in self.events for event in commit)
        for view in self.views:
            version = serving(self.store, view.name)
            at = find(self.store, version).bases[0].applied_to
            step = Step("events", at, at + 1, Position.at(at + 1), newest * 1000, at_us=at + 1)
            files = [str(write(self.folder / "partials", view, self.events[-1]))]
            self.store.apply(step, {version.id: files})
        self.sinks.wake()

    def append(self, rows: int) -> None:
        """A commit of the stream s."""
        add_commit(self.lake, self.stream, rows)
        self.sinks.wake()

    def state(self, name: str = "k") -> Any:
        return next(state for state in self.sinks.states() if state.progress.sink.name == name)

    def wait_sent(self, name: str = "k") -> None:
        """Until the destination has everything."""

        def done() -> bool:
            state = self.state(name)
            return bool(state.state == "running" and state.behind_commits == 0 and self._is_idle(name))

        wait_until(done, details=lambda: self.state(name))

    def _is_idle(self, name: str) -> bool:
        runner = self.sinks._runners[name]
        place = runner._progress.place.cursor
        return place is not None and runner._feed.after(place) is None

    def wait_stalled(self, name: str = "k") -> str:
        wait_until(lambda: self.state(name).state == "stalled", details=lambda: self.state(name))
        return str(self.state(name).reason)

    def stop(self) -> None:
        self.sinks.stop(30)
        self.store.close()


def data_files(folder: Path) -> list[Path]:
    """The files that readers see: those that are complete."""
    files = (path for path in folder.rglob("*") if path.suffix != TEMPORARY and path.is_file())
    return sorted(path for path in files if "_headrace" not in path.parts)


def read_files(folder: Path) -> list[Row]:
    """All rows of a folder's files, in the order of their names."""
    rows: list[Row] = []
    for path in data_files(folder):
        if path.suffix == ".parquet":
            table: pa.Table = pq.ParquetFile(path).read()
            rows += table.to_pylist()
        else:
            rows += [json.loads(line) for line in path.read_text().splitlines()]
    return rows


def latest(rows: list[Row]) -> dict[Any, int]:
    """What a reader has who keeps the newest change of each key: n by (key, minute)."""
    found: dict[Any, tuple[tuple[int, int], Row]] = {}
    for row in rows:
        key, place = (row["k0"], str(row.get("window_start"))), (row["_version"], row["_commit"])
        if key not in found or place >= found[key][0]:
            found[key] = (place, row)
    return {key: row["n"] for key, (_, row) in found.items() if row.get("_op", "upsert") == "upsert"}


class Receiver:
    """A real HTTP server; `reply` decides what each request gets."""

    def __init__(self) -> None:
        self.bodies: list[Row] = []
        self.headers: list[dict[str, str]] = []
        self.reply: Callable[[int], tuple[int, dict[str, str], bytes]] = lambda count: (200, {}, b"")
        self._count = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status, headers, content = receiver.take(body, {k.lower(): v for k, v in self.headers.items()})
                self.send_response(status)
                for name, value in {"content-length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: object) -> None:
                """Not to standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def take(self, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        self._count += 1
        answer = self.reply(self._count)
        self.headers.append(headers)
        if answer[0] < 300:
            self.bodies.append(json.loads(body))
        return answer

    @property
    def requests(self) -> int:
        return self._count

    @property
    def rows(self) -> list[Row]:
        return [row for body in self.bodies for row in body["rows"]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
