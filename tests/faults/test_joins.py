"""Events joined to a table, with kills of the server: each event has the row that its commit recorded."""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.cli.app import run
from headrace.define.catalog import parse
from headrace.lake.table import LakeTable
from headrace.workspace.settings import Workspace
from tests import http

from ..server import UpServer
from ..waiting import wait_until
from ..warm import Java
from .conftest import start_to_die

DEFINITIONS = """
CREATE STREAM clicks (user_id INT, n INT);
CREATE TABLE users (id INT PRIMARY KEY, plan STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE MATERIALIZED VIEW by_plan AS
  SELECT u.plan, count(*) AS hits, sum(c.n) AS total
  FROM clicks c LEFT JOIN users u ON c.user_id = u.id GROUP BY u.plan;
"""
POINTS = ("append.after_commit:6", "fused.before_merge:3", "append.before_commit:5")
SETTINGS = "lease_s = 2\nrehearse = false\nappend_every_ms = 0\n"


class Sender:
    """Sends changes and events by turns. A request without a reply is not known to be stored: the lake tells."""

    def __init__(self) -> None:
        self.chance = random.Random(5)

    def send(self, server: UpServer) -> str | None:
        """Some of both; None if the server is away."""
        second = self.chance.randrange(60)
        change = {"id": self.chance.randrange(9), "at": f"2026-01-01T00:00:{second:02d}Z"}
        change |= {"_deleted": True} if self.chance.random() < 0.2 else {"plan": self.chance.choice(["free", "pro"])}
        events = [{"user_id": self.chance.randrange(12), "n": self.chance.randrange(5)} for _ in range(20)]
        try:
            self._post(server, "/v1/tables/users/rows", [change])
            return str(self._post(server, "/v1/streams/clicks/events", events)["token"])
        except httpx2.HTTPError:
            return None

    def _post(self, server: UpServer, path: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
        reply = http.post(f"{server.url}{path}", content=json.dumps(rows), timeout=120)
        content: dict[str, Any] = reply.raise_for_status().json()
        return content


def send_until_dead(server: UpServer, sender: Sender) -> bool:
    if server.process.poll() is None:
        sender.send(server)
    return server.process.poll() is not None


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    """The events of a lake."""
    workspace = Workspace.open(folder)
    table = LakeTable(workspace.lake(name), parse(DEFINITIONS).streams[name], fence=None)
    files = [workspace.lake(name) / file.path for file in table.files(0, table.state.next_commit)]
    return [row for path in files for row in pa.table(pq.read_table(path, partitioning=None)).to_pylist()]


def expected(folder: Path) -> dict[Any, tuple[int, int]]:
    """What plain Python joins, by the versions that the events recorded."""
    changes, hits, totals = rows_of(folder, "users"), Counter[Any](), Counter[Any]()
    for event in rows_of(folder, "clicks"):
        pin = dict(event["_tables"])["users"]
        own = [c for c in changes if c["id"] == event["user_id"] and c["_commit"] < pin]
        latest = max(own, key=lambda change: (change["at"], change["_position"]), default=None)
        plan = None if latest is None or latest["_deleted"] else latest["plan"]
        hits[plan] += 1
        totals[plan] += event["n"]
    return {plan: (hits[plan], totals[plan]) for plan in hits}


def served(server: UpServer) -> dict[Any, tuple[int, int]]:
    rows = server.get("/v1/views/by_plan")["rows"]
    return {row["plan"]: (row["hits"], row["total"]) for row in rows}


def test_joined_rows_over_kills(java: Java, tmp_path: Path) -> None:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "clicks.sql").write_text(DEFINITIONS)
    (tmp_path / "headrace.toml").write_text(SETTINGS)
    sender = Sender()
    for point in POINTS:
        server = start_to_die(java, tmp_path, point)
        wait_until(partial(send_until_dead, server, sender), 300, server.log_tail)
        assert server.process.wait(180) == -9
    server = java.server(tmp_path).wait_until_ready()
    token = sender.send(server)
    assert token is not None
    server.wait_for_token(token)
    assert served(server) == expected(tmp_path)
    before = server.get("/v1/views/by_plan")["version"]
    http.post(f"{server.url}/v1/views/by_plan/refresh", content=b'{"full": true}', timeout=120).raise_for_status()
    wait_until(lambda: server.get("/v1/views/by_plan")["version"] > before, 300, server.log_tail)
    assert served(server) == expected(tmp_path), "a rebuild gives the same rows"
    server.stop()


def test_rows_that_were_sent_before_the_start_are_joined(java: Java, tmp_path: Path) -> None:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "clicks.sql").write_text(DEFINITIONS)
    (tmp_path / "headrace.toml").write_text(SETTINGS)
    assert run(["apply", "--yes", "-w", str(tmp_path)]) == 0
    users, clicks = tmp_path / "users.ndjson", tmp_path / "clicks.ndjson"
    at = "2026-01-01T00:00:00Z"
    users.write_text("\n".join(json.dumps({"id": n, "plan": "pro", "at": at}) for n in range(20_000)))
    clicks.write_text("\n".join(json.dumps({"user_id": n, "n": 1}) for n in range(100)))
    for stream, file in (("clicks", clicks), ("users", users)):
        assert run(["send", stream, str(file), "-w", str(tmp_path)]) == 0
    server = java.server(tmp_path).wait_until_ready()
    wait_until(lambda: served(server), details=server.log_tail)
    assert served(server) == {"pro": (100, 100)}
    server.kill()
