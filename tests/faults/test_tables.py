"""Tables and views over them, with kills of the server: rows are always those that plain Python has."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from tests import http

from ..server import COMMAND, UpServer
from ..waiting import wait_until
from ..warm import Java
from .conftest import start_to_die

DEFINITIONS = """
CREATE TABLE people (id INT PRIMARY KEY, place STRING, age INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE MATERIALIZED VIEW headcount AS SELECT place, count(*) AS people, max(age) AS oldest FROM people GROUP BY place;
CREATE MATERIALIZED VIEW totals AS SELECT place, count(*) AS people, sum(age) AS ages FROM people GROUP BY place;
CREATE SINK sent FROM totals WITH (connector = 'files', path = 'sent', format = 'json');
"""
# After the table's rows are stored and before the view over it is brought on, and around the steps of both.
POINTS = ("table.before_views:2", "store.before_commit:3", "append.after_commit:2", "table.before_views:1")
SETTINGS = "lease_s = 2\nrehearse = false\nappend_every_ms = 0\n"


class People:
    """Who was sent where, in the order of requests; a request without a reply is sent again with the same key."""

    def __init__(self) -> None:
        self.chance = random.Random(11)
        self.requests = 0
        self.latest: dict[int, dict[str, Any]] = {}

        self.waiting: list[dict[str, Any]] | None = None  # the changes whose reply was lost with a server

    def send(self, server: UpServer) -> str | None:
        """Send some changes, those without a reply first; None if the server was away."""
        if self.waiting is None:
            self.waiting = [self._change() for _ in range(self.chance.randint(1, 20))]
            self.requests += 1
        while True:
            try:
                reply = http.post(
                    f"{server.url}/v1/tables/people/rows", content=json.dumps(self.waiting),
                    headers={"idempotency-key": f"r{self.requests}"},
                )  # fmt: skip
                token: str = reply.raise_for_status().json()["token"]
                break
            except httpx2.HTTPError:
                if server.process.poll() is not None:
                    return None
        self._note(self.waiting)
        self.waiting = None
        return token

    def _change(self) -> dict[str, Any]:
        at = f"2026-01-01T00:00:{self.chance.randrange(60):02d}Z"
        row = {"id": self.chance.randrange(30), "at": at}
        if self.chance.random() < 0.2:
            return {**row, "_deleted": True}
        return {**row, "place": self.chance.choice(["Rome", "Oslo", None]), "age": self.chance.randrange(90)}

    def _note(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            known = self.latest.get(row["id"])
            if known is None or known["at"] <= row["at"]:
                self.latest[row["id"]] = row

    @property
    def present(self) -> list[dict[str, Any]]:
        return [row for row in self.latest.values() if not row.get("_deleted")]


def test_rows_over_kills(java: Java, tmp_path: Path) -> None:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "people.sql").write_text(DEFINITIONS)
    (tmp_path / "headrace.toml").write_text(SETTINGS)
    people = People()
    for point in POINTS:
        server = start_to_die(java, tmp_path, point)
        wait_until(partial(_send_until_dead, server, people), 300, server.log_tail)
        assert server.process.wait(180) == -9
    server = java.server(tmp_path).wait_until_ready()
    people.send(server)
    token = people.send(server)
    assert token is not None
    server.wait_for_token(token)
    check(server, people)
    server.get("/v1/tables")
    http.post(f"{server.url}/v1/views/people/refresh").raise_for_status()
    token = people.send(server)
    assert token is not None
    server.wait_for_token(token)
    check(server, people)
    compare_and_make_anew(server, people)
    edit_and_go_back(server, people)
    server.kill()


def compare_and_make_anew(server: UpServer, people: People) -> None:
    """What kills and steps have left agrees with the rows of the table; rebuilt from them, it still does."""
    for view in ("headcount", "totals"):
        assert "rebuilt from the rows of table people, serves" in run_headrace(server, "refresh", view, "--full")
        assert "rows compared, drift 0" in run_headrace(server, "refresh", view)
    check(server, people)


def run_headrace(server: UpServer, *words: str) -> str:
    command = [*COMMAND, *words, "-w", str(server.folder)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def edit_and_go_back(server: UpServer, people: People) -> None:
    """Another definition of a view over the table serves, then the first one again; the past stays what it was."""
    before = server.get("/v1/views/totals")
    edited = DEFINITIONS.replace("sum(age) AS ages", "min(age) AS youngest")
    (server.folder / "definitions" / "people.sql").write_text(edited)
    http.post(f"{server.url}/v1/apply").raise_for_status()
    wait_until(lambda: "youngest" in server.rows("totals")[0], details=server.log_tail)
    token = people.send(server)
    assert token is not None
    server.wait_for_token(token)
    for row in server.rows("totals"):
        assert row["youngest"] == min(person["age"] for person in people.present if person["place"] == row["place"])
    http.post(f"{server.url}/v1/views/totals/rollback", json={}).raise_for_status()
    wait_until(lambda: "ages" in server.rows("totals")[0], details=server.log_tail)
    check(server, people)
    past = server.get("/v1/views/totals", version_as_of=before["as_of"]["commits"]["people"])
    assert past["rows"] == before["rows"]


def _send_until_dead(server: UpServer, people: People) -> bool:
    if server.process.poll() is None:
        people.send(server)
    return server.process.poll() is not None


def check(server: UpServer, people: People) -> None:
    rows = {row["id"]: (row["place"], row["age"]) for row in server.rows("people")}
    assert rows == {row["id"]: (row["place"], row["age"]) for row in people.present}
    counts = {row["place"]: row["people"] for row in server.rows("headcount")}
    assert counts == dict(Counter(row["place"] for row in people.present))
    for row in server.rows("headcount"):
        ages = [person["age"] for person in people.present if person["place"] == row["place"]]
        assert row["oldest"] == max(ages)
    totals = {row["place"]: (row["people"], row["ages"]) for row in server.rows("totals")}
    ages_of = {place: [row["age"] for row in people.present if row["place"] == place] for place in counts}
    assert totals == {place: (len(ages), sum(ages)) for place, ages in ages_of.items()}
    wait_until(lambda: rows_sent(server.folder / "sent") == totals, details=server.log_tail)
    (table,) = server.get("/v1/tables")["tables"]
    assert table["rows"] == len(people.present)


def rows_sent(folder: Path) -> dict[str | None, tuple[int, int | None]]:
    """What is left of the rows that a sink wrote, in their order."""
    rows: dict[str | None, tuple[int, int | None]] = {}
    for file in sorted(folder.glob("*.json")):
        for change in map(json.loads, file.read_text().splitlines()):
            rows.pop(change["place"], None)
            if change["_op"] == "upsert":
                rows[change["place"]] = change["people"], change.get("ages")
    return rows
