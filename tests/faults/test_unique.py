"""Repeated events of a stream with UNIQUE over kills of servers and workers: the first counts, and only that one."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.dataset as ds

from headrace.define.catalog import parse
from headrace.lake.delta_table import LakeTable
from tests import http

from ..server import UpServer
from ..transports import with_clause
from ..waiting import wait_until
from ..warm import Java
from .conftest import start_to_die

STREAM = """
CREATE STREAM payments (id BIGINT NOT NULL, amount BIGINT, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 10 SECONDS, UNIQUE (id) WITHIN INTERVAL 1 HOUR) {source};
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(amount) AS amount FROM payments;
CREATE MATERIALIZED VIEW per_minute AS
  SELECT count(*) AS n, sum(amount) AS amount FROM payments GROUP BY window(at, '1 minute');
"""
# Points around the commit of an append: those of workers, before the files are in the table, and after.
POINTS = ("append.before_commit:2", "append.after_commit:2", "append.before_commit:1", "append.after_commit:3")
IDS = 150


@dataclass
class Shop:
    """A producer that sends until it is acknowledged, some things twice, and some hours late."""

    chance: random.Random
    requests: int = 0

    def events(self) -> list[dict[str, Any]]:
        return [self._event() for _ in range(self.chance.randint(1, 40))]

    def _event(self) -> dict[str, Any]:
        minute = self.chance.choice((0, 1, 59, 60, 61, 300, 100, 2000))
        at = f"2026-04-{1 + minute // 1440:02d}T{minute // 60 % 24:02d}:{minute % 60:02d}:00Z"
        return {"id": self.chance.randrange(IDS), "amount": self.chance.randrange(1000), "at": at}

    def post(self, server: UpServer, times: int) -> str | None:
        """The token of the last reply. A request without a reply is sent again: its events may be there twice."""
        token = None
        for _ in range(times):
            lines = [json.dumps(event) for event in self.events()]
            for _ in range(self.chance.choice((1, 1, 2))):
                with suppress(httpx2.HTTPError):
                    reply = http.post(
                        f"{server.url}/v1/streams/payments/events", content="\n".join(lines), timeout=120,
                        headers={"content-type": "application/x-ndjson"},
                    )  # fmt: skip
                    token = reply.json().get("token", token)
                    self.requests += 1
        return token


def test_the_first_counts_over_kills(java: Java, tmp_path: Path) -> None:
    (tmp_path / "definitions").mkdir()
    sql = STREAM.format(source=with_clause())
    (tmp_path / "definitions" / "payments.sql").write_text(sql)
    settings = "lease_s = 2\nrehearse = false\nappend_every_ms = 0\nupkeep_every_s = 0.3\nlake_grace_s = 0\n"
    (tmp_path / "headrace.toml").write_text(settings)
    shop = Shop(random.Random(7))
    for point in POINTS:
        server = start_to_die(java, tmp_path, point)
        wait_until(partial(_post_until_dead, server, shop), 300, server.log_tail)
        assert server.process.wait(180) == -9
    server = java.server(tmp_path).wait_until_ready()
    java.worker_fault.write_text("append.in_worker:2")
    shop.post(server, 5)
    java.worker_fault.unlink()
    token = shop.post(server, 5)
    assert token is not None
    server.wait_for_token(token)
    counted = check_lake(tmp_path, sql)
    check_views(server, counted)
    reply = http.post(f"{server.url}/v1/streams/payments/dead-letters/replay", timeout=120).raise_for_status()
    assert reply.json()["readable"] == 0, "a repeat stays one"
    server.kill()
    server = java.server(tmp_path).wait_until_ready()
    check_views(server, check_lake(tmp_path, sql))
    server.kill()


def _post_until_dead(server: UpServer, shop: Shop) -> bool:
    if server.process.poll() is not None:
        return True
    shop.post(server, 2)
    return False


def check_lake(folder: Path, sql: str) -> list[dict[str, Any]]:
    """Judge all events of the log again, one by one, in its order; returns those that count."""
    (stream,) = parse(sql).streams.values()
    while True:
        table = LakeTable(folder / "data" / "lake" / "payments", stream, fence=None)
        with suppress(FileNotFoundError):  # upkeep has merged it with others meanwhile, and keeps none for readers here
            rows = [{**row, "dead": dead} for dead in (False, True) for row in _rows(table, dead)]
            break
    rows.sort(key=lambda row: (row["_commit"], row["_position"]))
    counted: list[dict[str, Any]] = []
    for row in rows:
        event = json.loads(row["_value"])
        seconds = [abs((row["at"] - other["at"]).total_seconds()) for other in counted if other["id"] == event["id"]]
        assert row["dead"] == any(each < 3600 for each in seconds), row
        if not row["dead"]:
            counted.append(row)
    assert len(rows) > len(counted) > IDS / 2
    assert table.duplicates == len(rows) - len(counted)
    return counted


def _rows(table: LakeTable, dead: bool) -> list[dict[str, Any]]:
    files = table.files(0, table.state.next_commit, dead=dead)
    tables = [ds.dataset(table.storage.locate(file.path)).to_table() for file in files]
    return pa.concat_tables(tables, promote_options="permissive").to_pylist() if tables else []


def check_views(server: UpServer, counted: list[dict[str, Any]]) -> None:
    """Both views have these events, once each."""

    def all_there() -> bool:
        views = server.get("/v1/views")["views"]
        return all(view["applied_to"] == view["commits"] for view in views)

    wait_until(all_there, 300, server.log_tail)
    (total,) = server.rows("total")
    assert (total["n"], total["amount"]) == (len(counted), sum(row["amount"] for row in counted))
    minutes = server.rows("per_minute")
    assert sum(row["n"] for row in minutes) == len(counted)
    assert len(minutes) == len({row["at"] for row in counted})
