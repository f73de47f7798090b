"""Servers killed between the write of a sink and its progress: files have each row once, a URL at least once."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.deliver.sinks.files_sink import TEMPORARY
from headrace.faults import VARIABLE
from tests.unit.deliver.sinks.sink_bench import Receiver, data_files

from ..server import UpServer
from ..waiting import wait_until
from ..warm import Java
from .clicks import Clicks

POINTS = ("sink.before_commit", "sink.after_commit", "sink.before_progress", "sink.after_progress")
SINKS = """
CREATE STREAM unordered (WATERMARK FOR t AS t - INTERVAL 1 HOUR) AS
SELECT who, weight, timestamp_seconds(1775037600 + id * 37 % 1800) AS t FROM clicks;
CREATE MATERIALIZED VIEW calls AS
SELECT who, count(*) AS n, sum(weight) AS weight FROM unordered GROUP BY who, session_window(t, '30 seconds');
CREATE SINK events FROM clicks WITH (connector = 'files', path = 'events', format = 'json', batch.rows = 30);
CREATE SINK minutes FROM per_minute
  WITH (connector = 'files', path = 'minutes', format = 'json', partition.by = 'date');
CREATE SINK hook FROM clicks WITH (connector = 'http', url = '{url}', batch.rows = 30);
CREATE SINK rows FROM per_minute WITH (connector = 'http', url = '{rows}');
CREATE SINK calls_as_files FROM calls WITH (connector = 'files', path = 'calls', format = 'json');
"""
NAMES = {"events", "minutes", "hook", "rows", "calls_as_files"}


def read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in data_files(folder) for line in path.read_text().splitlines()]


def post_until_dead(server: UpServer, clicks: Clicks) -> bool:
    if server.process.poll() is None:
        clicks.post(server)
    return server.process.poll() is not None


def is_caught_up(server: UpServer) -> bool:
    sinks = server.get("/v1/sinks")["sinks"]
    return {sink["name"] for sink in sinks if sink["state"] == "running" and not sink["behind_commits"]} == NAMES


def newest(rows: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[int, int]]:
    """What a reader has who keeps the newest change of each row."""
    found: dict[tuple[str, str], tuple[tuple[int, int], dict[str, Any]]] = {}
    for row in rows:
        key, place = (row["window_start"], row["who"]), (row["_version"], row["_commit"])
        if key not in found or place >= found[key][0]:
            found[key] = (place, row)
    return {key: (row["n"], row["weight"]) for key, (_, row) in found.items() if row["_op"] == "upsert"}


def check(server: UpServer, workspace: Path, clicks: Clicks, receiver: Receiver, rows: Receiver) -> None:
    """Every acknowledged event is in the files, once, and at the URL; the newest changes are the rows of the view."""
    clicks.check(server)
    wait_until(lambda: is_caught_up(server), 180, lambda: server.get("/v1/sinks"))
    expected = Counter(event["id"] for event in clicks.acknowledged)
    view, calls = (
        {(row["window_start"], row["who"]): (row["n"], row["weight"]) for row in server.rows(name)}
        for name in ("per_minute", "calls")
    )

    def all_there() -> bool:
        ids = Counter(row["id"] for row in read(workspace / "events"))
        sent = Counter({(row["_commit"], row["_position"]): row["id"] for row in receiver.rows}.values())
        minutes, sessions = (newest(read(workspace / name)) for name in ("minutes", "calls"))
        return (ids, sent, sessions) == (expected, expected, calls) and minutes == view == newest(rows.rows)

    wait_until(all_there, 180, lambda: server.get("/v1/sinks"))
    deleted = [row for row in read(workspace / "calls") if row["_op"] == "delete"]
    assert deleted, "sessions were merged"


@pytest.mark.timeout(900)
def test_servers_killed_in_sinks(java: Java, workspace: Path) -> None:
    receiver, rows, clicks = Receiver(), Receiver(), Clicks()
    fault = workspace / "fault"
    definitions = SINKS.format(url=receiver.url, rows=rows.url)
    (workspace / "definitions" / "sinks.sql").write_text(definitions)
    try:
        for point in POINTS:
            for passed in (1, 4):
                fault.unlink(missing_ok=True)
                server = java.server(workspace, **{VARIABLE: f"@{fault}"}).wait_for_http()
                fault.write_text(f"{point}:{passed}")  # only now: a sink that catches up may pass it at once
                wait_until(partial(post_until_dead, server, clicks), 300, server.log_tail)
        fault.unlink()
        server = java.server(workspace).wait_until_ready()
        for _ in range(3):
            clicks.post(server, strict=True)
        check(server, workspace, clicks, receiver, rows)
        assert server.stop() == 0, server.log_tail()
        assert not list(workspace.rglob(f"*{TEMPORARY}"))
    finally:
        receiver.close()
        rows.close()
