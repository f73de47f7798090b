"""Events joined to tables, with kills of the server: each event has the row that its commit recorded.

One table is declared, the other is made of the events that are joined to it. Then full refreshes with the tables of now
and as recorded, and changed definitions of a table that views join.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.cli.app import run
from headrace.define.catalog import parse
from headrace.lake.delta_table import LakeTable
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
CREATE TABLE latest PRIMARY KEY (user_id) AS SELECT user_id, n AS last_n FROM clicks WHERE user_id < 9;
CREATE MATERIALIZED VIEW by_last AS
  SELECT l.last_n, count(*) AS hits FROM clicks c LEFT JOIN latest l ON c.user_id = l.user_id GROUP BY l.last_n;
"""
WITH_CITY = (
    DEFINITIONS.replace("plan STRING, at", "plan STRING, city STRING, at")
    + """
CREATE MATERIALIZED VIEW by_city AS
  SELECT u.city, count(*) AS hits FROM clicks c JOIN users u ON c.user_id = u.id GROUP BY u.city;
"""
)
POINTS = ("append.after_commit:6", "fused.before_merge:3", "append.before_commit:5")
SETTINGS = "lease_s = 2\nrehearse = false\nappend_every_ms = 0\n"


class Sender:
    """Sends changes and events by turns. A request without a reply is not known to be stored: the lake tells."""

    def __init__(self) -> None:
        self.chance = random.Random(5)
        self.change = ""  # the token of the last change

    def send(self, server: UpServer) -> str | None:
        """Some of both; None if the server is away."""
        second = self.chance.randrange(60)
        change = {"id": self.chance.randrange(9), "at": f"2026-01-01T00:00:{second:02d}Z"}
        change |= {"_deleted": True} if self.chance.random() < 0.2 else {"plan": self.chance.choice(["free", "pro"])}
        events = [{"user_id": self.chance.randrange(12), "n": self.chance.randrange(5)} for _ in range(20)]
        try:
            self.change = self.post(server, "/v1/tables/users/rows", [change])["token"]
            return str(self.post(server, "/v1/streams/clicks/events", events)["token"])
        except httpx2.HTTPError:
            return None

    def send_all(self, server: UpServer) -> None:
        """Some of both; done when the views have them."""
        token = self.send(server)
        assert token is not None
        server.wait_for_token(self.change)
        server.wait_for_token(token)

    def post(self, server: UpServer, path: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
        reply = http.post(f"{server.url}{path}", content=json.dumps(rows))
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


Rows = dict[str, dict[Any, tuple[int, ...]]]


class Latest:
    """The latest row of each key, by a time and the position, in the commits before any one."""

    def __init__(self, rows: list[dict[str, Any]], key: str, time: str) -> None:
        self._rows: dict[Any, list[tuple[int, dict[str, Any]]]] = {}
        for row in sorted(rows, key=lambda row: row["_commit"]):
            own = self._rows.setdefault(row[key], [])
            before = [own[-1][1]] if own else []
            latest = max([*before, row], key=lambda each: (each[time], each["_position"]))
            own.append((row["_commit"], latest))

    def before(self, key: Any, commit: int) -> dict[str, Any] | None:
        own = self._rows.get(key, [])
        count = bisect_left(own, commit, key=lambda each: each[0])
        return own[count - 1][1] if count else None


def expected(folder: Path, now: tuple[int, int] = (0, 0)) -> Rows:
    """What plain Python joins, by the versions that the events recorded.

    `now` is a commit of clicks and a version of users: the commits before that one use this version.
    """
    clicks = rows_of(folder, "clicks")
    users = Latest(rows_of(folder, "users"), "id", "at")
    latest = Latest([click for click in clicks if click["user_id"] < 9], "user_id", "_arrived")
    plans, totals, lasts = Counter[Any](), Counter[Any](), Counter[Any]()
    for event in clicks:
        pins = dict(event["_tables"])
        assert pins["clicks"] <= event["_commit"], "a commit does not see itself"
        user = users.before(event["user_id"], now[1] if event["_commit"] < now[0] else pins["users"])
        plan = None if user is None or user["_deleted"] else user["plan"]
        plans[plan] += 1
        totals[plan] += event["n"]
        last = latest.before(event["user_id"], pins["clicks"])
        lasts[last and last["n"]] += 1
    return {
        "by_plan": {plan: (plans[plan], totals[plan]) for plan in plans},
        "by_last": {n: (hits,) for n, hits in lasts.items()},
    }


def served(server: UpServer) -> Rows:
    plans, lasts = (server.get(f"/v1/views/{view}")["rows"] for view in ("by_plan", "by_last"))
    return {
        "by_plan": {row["plan"]: (row["hits"], row["total"]) for row in plans},
        "by_last": {row["last_n"]: (row["hits"],) for row in lasts},
    }


def next_commit(folder: Path, stream: str) -> int:
    return max(row["_commit"] for row in rows_of(folder, stream)) + 1


def refresh(server: UpServer, view: str, **tables: str) -> None:
    before = server.get(f"/v1/views/{view}")["version"]
    body = json.dumps({"full": True, **tables})
    http.post(f"{server.url}/v1/views/{view}/refresh", content=body).raise_for_status()
    wait_until(lambda: server.get(f"/v1/views/{view}")["version"] > before, 300, server.log_tail)


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
    sender.send_all(server)
    assert served(server) == expected(tmp_path)
    refresh(server, "by_plan")
    refresh(server, "by_last")
    assert served(server) == expected(tmp_path), "a rebuild gives the same rows"
    now = next_commit(tmp_path, "clicks"), next_commit(tmp_path, "users")
    refresh(server, "by_plan", tables="now")
    assert served(server) == expected(tmp_path, now)
    server.kill()
    server = java.server(tmp_path).wait_until_ready()
    sender.send_all(server)
    assert served(server) == expected(tmp_path, now), "later events have the rows that their commits recorded"
    refresh(server, "by_plan")
    assert served(server) == expected(tmp_path, now), "and so does a version that is built after it"
    refresh(server, "by_plan", tables="recorded")
    assert served(server) == expected(tmp_path)
    change_definitions(server, sender)
    assert served(server) == expected(tmp_path)
    server.stop()


def change_definitions(server: UpServer, sender: Sender) -> None:
    """A table that views join gets a column; then it is to be dropped, which is refused before anything changes."""
    file = server.folder / "definitions" / "clicks.sql"
    file.write_text(WITH_CITY)
    plan = server.http.post(f"{server.url}/v1/apply", json={}).json()
    assert {change["name"]: change["kind"] for change in plan["changes"]} == {"users": "change", "by_city": "create"}
    server.wait_for_views("by_city")
    change = {"id": 1, "plan": "pro", "city": "x", "at": "2026-01-01T00:01:00Z"}
    server.wait_for_token(sender.post(server, "/v1/tables/users/rows", [change])["token"])
    server.wait_for_token(sender.post(server, "/v1/streams/clicks/events", [{"user_id": 1, "n": 1}])["token"])
    assert [row["hits"] for row in server.get("/v1/views/by_city")["rows"] if row["city"] == "x"] == [1]
    file.write_text("\n".join(line for line in WITH_CITY.splitlines() if "TABLE users" not in line))
    refused = server.http.post(f"{server.url}/v1/apply", json={})
    assert refused.status_code == 400, refused.text
    assert "table 'users' does not exist" in refused.text
    server.wait_for_token(sender.post(server, "/v1/streams/clicks/events", [{"user_id": 1, "n": 1}])["token"])
    assert [row["hits"] for row in server.get("/v1/views/by_city")["rows"] if row["city"] == "x"] == [2]


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
    wait_until(lambda: server.get("/v1/views/by_plan")["rows"], details=server.log_tail)
    assert [(row["plan"], row["hits"]) for row in server.get("/v1/views/by_plan")["rows"]] == [("pro", 100)]
    server.kill()
