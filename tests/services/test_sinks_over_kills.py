"""Sinks of a real server while it, PostgreSQL and Kafka are killed: nothing lost, nothing twice."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from headrace.deliver.sinks.kafka_sink import LatestRows
from headrace.faults import VARIABLE
from headrace.format import iso
from tests.server import UpServer
from tests.waiting import wait_until
from tests.warm import Java, WarmServer

from .running import Kafka, Postgres

POINTS = ("sink.before_commit", "sink.after_commit", "sink.before_progress", "sink.after_progress")
DATABASE_KILLS = 5
CATCH_UP_S = 300  # on a busy machine
PAGES = ("/", "/v1/sinks", "/v1/status", "/metrics")
SETTINGS = "lease_s = 2\nrehearse = false\nappend_every_ms = 0\n"
DEFINITIONS = """
CREATE STREAM clicks (id BIGINT NOT NULL, who STRING, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 10 SECONDS);
CREATE MATERIALIZED VIEW per_minute AS
  SELECT who, {columns} FROM clicks WHERE {where} GROUP BY who, window(at, '1 minute');
CREATE SINK rows_to_table FROM per_minute WITH (connector = 'postgres', url = 'secret:PG_URL', table = 'per_minute');
CREATE SINK events_to_table FROM clicks WITH (connector = 'postgres', url = 'secret:PG_URL', table = 'clicks',
  batch.rows = 40);
CREATE SINK rows_to_topic FROM per_minute WITH (connector = 'kafka', topic = '{rows}', create = true, partitions = 2,
  properties.bootstrap.servers = '{servers}') FORMAT UPSERT ENCODE JSON;
CREATE SINK events_to_topic FROM clicks WITH (connector = 'kafka', topic = '{events}', create = true,
  delivery.guarantee = 'exactly-once', properties.bootstrap.servers = '{servers}', batch.rows = 40)
  FORMAT PLAIN ENCODE JSON;
"""


class Flow:
    """A workspace with sinks into both systems, and the events that were acknowledged."""

    def __init__(self, java: Java, folder: Path, kafka: Kafka, url: str) -> None:
        self._java, self._folder, self._kafka, self._url = java, folder, kafka, url
        self.rows_topic, self.events_topic = (f"{name}-{time.monotonic_ns()}" for name in ("rows", "events"))
        (folder / "definitions").mkdir()
        (folder / "headrace.toml").write_text(SETTINGS)
        self.define()
        self.fault = folder / "fault"
        self.fault.write_text("")
        self._ids = 0
        self._waiting: tuple[str, list[dict[str, Any]]] | None = None
        self.server = self.start()

    def define(self, columns: str = "count(*) AS n, sum(id) AS ids", where: str = "id >= 0") -> None:
        """Write the definitions, with these columns of the view over these events."""
        topics = {"rows": self.rows_topic, "events": self.events_topic, "servers": self._kafka.bootstrap_servers}
        text = DEFINITIONS.format(columns=columns, where=where, **topics)
        (self._folder / "definitions" / "clicks.sql").write_text(text)

    def apply(self) -> None:
        """Have the server take the definitions, and wait until the view has its new version."""
        self.server.http.post(f"{self.server.url}/v1/apply", json={}).raise_for_status()
        wait_until(lambda: not any(view["building"] for view in self.server.get("/v1/views")["views"]), CATCH_UP_S)

    def sink(self, name: str) -> dict[str, Any]:
        return next(sink for sink in self.server.get("/v1/sinks")["sinks"] if sink["name"] == name)

    def start(self) -> WarmServer:
        self.server = self._java.server(self._folder, **{VARIABLE: f"@{self.fault}", "PG_URL": self._url})
        return self.server.wait_for_http()

    def post(self, count: int = 30) -> None:
        """Send events, or again those that were not acknowledged."""
        if self._waiting is None:
            first, self._ids = self._ids, self._ids + count
            events = [
                {"id": n, "who": None if n % 7 == 0 else f"who-{n % 5}", "at": f"2026-03-01T12:{n // 60 % 60:02}:00Z"}
                for n in range(first, self._ids)
            ]
            self._waiting = (f"post-{first}", events)
        key, events = self._waiting
        self.server.post("clicks", events, key)
        self._waiting = None

    def post_until_dead(self) -> None:
        deadline = time.monotonic() + CATCH_UP_S
        while self.server.process.poll() is None:
            assert time.monotonic() < deadline, f"never reached: {self.server.log_tail()}"
            try:
                self.post()
                time.sleep(0.2)  # a commit for each few posts
            except httpx2.HTTPError:
                time.sleep(0.1)  # it is dying

    def caught_up(self) -> None:
        """Wait until all four sinks have sent all."""
        if self._waiting is not None:
            self.post()
        wait_until(lambda: self._viewed() == self._ids, CATCH_UP_S, self.server.log_tail)
        wait_until(lambda: self.table_ids() >= self._ids, CATCH_UP_S, lambda: self.server.get("/v1/sinks"))
        wait_until(self._is_settled, CATCH_UP_S, lambda: self.server.get("/v1/sinks"))

    def _viewed(self) -> int:
        return sum(row["n"] for row in self.server.rows("per_minute"))

    def table_ids(self) -> int:
        """How many events are in the table."""
        try:
            return int(self.query("SELECT count(DISTINCT id) FROM clicks")[0][0])
        except psycopg.Error:
            return 0

    def _is_settled(self) -> bool:
        sinks = self.server.get("/v1/sinks")["sinks"]
        return all(sink["state"] == "running" and sink["behind_commits"] == 0 for sink in sinks)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            result = connection.execute(text.encode())
            return result.fetchall() if result.description else []

    def expected(self) -> dict[tuple[str | None, str], tuple[int, int]]:
        """The rows of the view."""
        return {(r["who"], r["window_start"]): (r["n"], r["ids"]) for r in self.server.rows("per_minute")}

    def table(self) -> dict[tuple[str | None, str], tuple[int, int]]:
        """The rows in PostgreSQL."""
        rows = self.query("SELECT who, window_start, n, ids FROM per_minute")
        return {(who, iso(start)): (n, int(ids)) for who, start, n, ids in rows}

    def topic(self) -> dict[tuple[str | None, str], tuple[int, int]]:
        """The rows in Kafka, as a consumer has them that drops repeats."""
        latest = LatestRows()
        for message in self._kafka.messages(self.rows_topic):
            latest.apply(message.key(), message.value(), message.headers())
        return {(r["who"], r["window_start"]): (r["n"], r["ids"]) for r in latest.rows()}

    def check(self) -> None:
        """Both tables and both topics are exactly what the server has."""
        expected = self.expected()
        assert sum(n for n, _ in expected.values()) == self._ids
        assert self.query("SELECT count(*) FROM per_minute") == [(len(expected),)]
        assert self.table() == expected
        assert self.topic() == expected
        ids = self.query("SELECT count(*), count(DISTINCT id), count(DISTINCT _position) FROM clicks")
        assert ids == [(self._ids,) * 3], "each event once"
        events = Counter(json.loads(m.value() or "")["id"] for m in self._kafka.messages(self.events_topic))
        assert len(events) == self._ids
        assert set(events.values()) == {1}, "each event once"


@pytest.fixture
def flow(java: Java, tmp_path: Path, kafka: Kafka, postgres: Postgres) -> Iterator[Flow]:
    url = postgres.create_database()
    yield Flow(java, tmp_path, kafka, url)
    UpServer.kill_all()
    postgres.start()
    postgres.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")


@pytest.mark.timeout(1500)
def test_nothing_is_lost_or_twice_over_kills(flow: Flow, kafka: Kafka, postgres: Postgres) -> None:
    flow.post()
    flow.caught_up()
    flow.check()
    for point in POINTS:
        flow.fault.write_text(f"{point}:2")
        flow.post_until_dead()
        flow.fault.write_text("")
        flow.start()
        flow.caught_up()
        flow.check()
    for _ in range(DATABASE_KILLS):
        before = flow.table_ids()
        flow.post(1000)
        wait_until(lambda sent=before: flow.table_ids() > sent, CATCH_UP_S)  # in the middle of many batches
        postgres.kill()
        flow.post()
        postgres.start()
        flow.post()
        flow.caught_up()
    flow.check()
    flow.post()
    kafka.kill()
    flow.post()
    kafka.start()
    flow.post()
    flow.caught_up()
    flow.check()
    pages = [flow.server.http.get(f"{flow.server.url}{path}").text for path in PAGES]
    assert "rows_to_table" in pages[1]
    assert all(postgres.password not in text for text in [*pages, flow.server.log.read_text()])


@pytest.mark.timeout(900)
def test_both_follow_the_versions_of_a_view(flow: Flow) -> None:
    flow.post(300)
    flow.caught_up()
    before = flow.expected()
    flow.define(where="id >= 150")  # other values, and fewer rows
    flow.apply()
    wait_until(lambda: flow.table() == flow.expected() != before, CATCH_UP_S, lambda: flow.server.get("/v1/sinks"))
    wait_until(lambda: flow.topic() == flow.expected(), CATCH_UP_S, lambda: flow.server.get("/v1/sinks"))
    flow.define("count(*) AS n, sum(id) AS ids, max(id) AS last")
    flow.apply()
    wait_until(lambda: flow.sink("rows_to_table")["state"] == "stalled", CATCH_UP_S)
    reason = flow.sink("rows_to_table")["reason"]
    assert "lacks the column 'last'; write ALTER TABLE" in reason
    wait_until(lambda: flow.sink("rows_to_topic")["state"] == "running", details=lambda: flow.sink("rows_to_topic"))
    statement = reason.partition("; write ")[2].removesuffix("; or name another table")
    flow.query(statement)
    flow.server.http.post(f"{flow.server.url}/v1/sinks/rows_to_table/retry").raise_for_status()
    wait_until(lambda: flow.table() == flow.expected() == before, CATCH_UP_S, lambda: flow.server.get("/v1/sinks"))
    wait_until(lambda: flow.topic() == before, CATCH_UP_S, lambda: flow.server.get("/v1/sinks"))
    flow.server.http.post(f"{flow.server.url}/v1/views/per_minute/rollback", json={}).raise_for_status()
    wait_until(lambda: flow.expected() != before, CATCH_UP_S)
    wait_until(lambda: flow.table() == flow.expected(), CATCH_UP_S, lambda: flow.server.get("/v1/sinks"))
    wait_until(lambda: flow.topic() == flow.expected(), CATCH_UP_S, lambda: flow.server.get("/v1/sinks"))
