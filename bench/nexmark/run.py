"""Sends Nexmark's events to a server with all views, and compares every view with DuckDB."""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from bench.nexmark.generate import write_files
from bench.nexmark.queries import COLUMNS, OTHERS, QUERIES, Query, definitions
from bench.ours.figures import Figure
from bench.ours.measure import start_empty_server
from bench.ours.progress import Progress
from bench.ours.turn import MOST_S
from bench.ours.usage import cpu_seconds
from bench.record import Part
from bench.sizes import FullSizes
from headrace.api.connect import Connection, connect
from headrace.errors import HeadraceError

MOST_ERROR = 0.1  # of an estimate; its stated error of 3.3 % holds for 95 of 100
BIDS = f"CREATE TABLE bids AS SELECT * FROM read_json($files, format = 'newline_delimited', columns = {COLUMNS})"


def nexmark(sizes: FullSizes, progress: Progress) -> Part:
    """All views at once, in one server; an answer that is not DuckDB's is an error."""
    progress.tell(f"Nexmark, {sizes.nexmark_events:,} events into {len(QUERIES)} views")
    outcome = progress.keep("all views", lambda: _measure(sizes.nexmark_events, progress))
    rate, cpu = sizes.nexmark_events / outcome["seconds"], outcome["cpu_s"] / sizes.nexmark_events * 1e6
    figures = [
        Figure(f"Nexmark, {len(QUERIES)} views", rate, "events/s", f"{sizes.nexmark_events:,} events, once"),
        Figure(f"CPU, Nexmark, {len(QUERIES)} views", cpu, "s per M events", "once", higher_is_better=False),
    ]
    table = [[query.number, query.title, _verdict(query, outcome["rows"])] for query in QUERIES]
    table += [[number, title, reason] for number, (title, reason) in OTHERS.items()]
    return Part(figures, {"table": sorted(table), **outcome})


def _verdict(query: Query, rows: dict[str, int]) -> str:
    count = rows[str(query.number)]
    verdict = f"a view; {count:,} row{'s' if count > 1 else ''} compared"
    return f"{verdict}; {query.note}" if query.note else verdict


def _measure(events: int, progress: Progress) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name, start_empty_server(definitions()) as server:
        folders = [Path(name) / part for part in ("warm", "run")]
        for folder in folders:
            folder.mkdir()
        with connect(str(server.folder)) as connection:
            _send(connection, write_files(folders[0], events // 4, seed=9))  # code is compiled on the first events
            files = write_files(folders[1], events)
            before_s, start = cpu_seconds(server.pid), time.monotonic()
            _send(connection, files)
            seconds, cpu_s = time.monotonic() - start, cpu_seconds(server.pid) - before_s
            rows = {}
            with duckdb.connect() as reference:
                reference.execute(BIDS, {"files": [str(folder / "bids.ndjson") for folder in folders]})
                for query in QUERIES:
                    rows[str(query.number)] = _compare(query, connection, reference)
                    progress.tell(f"q{query.number}: {rows[str(query.number)]:,} rows are those of DuckDB")
    return {"seconds": seconds, "cpu_s": cpu_s, "rows": rows}


def _send(connection: Connection, files: dict[str, tuple[Path, int]]) -> None:
    """Send all files, then wait until every view has them."""
    tokens = [connection.send(kind, path).token for kind, (path, _) in files.items()]
    for token in tokens:
        if not connection.wait(token, MOST_S).complete:
            raise HeadraceError(f"the views did not have all events within {MOST_S:.0f} s")


def _compare(query: Query, connection: Connection, reference: duckdb.DuckDBPyConnection) -> int:
    """Compare all rows; returns their number."""
    result = reference.execute(query.reference)
    columns = [column[0] for column in result.description or ()]
    exact = [name for name in columns if name not in query.approximate]
    expected = _by_exact([dict(zip(columns, row, strict=True)) for row in result.fetchall()], exact)
    served = _by_exact(connection.ask(f"q{query.number}").rows(), exact)
    if served.keys() != expected.keys():
        differences = sorted(served.keys() ^ expected.keys(), key=str)
        raise HeadraceError(
            f"q{query.number} differs from DuckDB in {len(differences):,} of {len(expected):,} rows",
            found=f"{differences[:3]}",
        )
    for key, row in expected.items():
        for name in query.approximate:
            if abs(served[key][name] - row[name]) > max(1, MOST_ERROR * row[name]):
                raise HeadraceError(f"q{query.number}: {name} of {key} is {served[key][name]}, not about {row[name]}")
    return len(expected)


def _by_exact(rows: list[dict[str, Any]], names: list[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows by their columns that must be equal."""
    keyed = {tuple(_plain(row[name]) for name in names): row for row in rows}
    if len(keyed) != len(rows):
        raise HeadraceError(f"{len(rows) - len(keyed):,} rows came twice")
    return keyed


def _plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC).replace(tzinfo=None)
    return Decimal(value) if isinstance(value, int) else value
