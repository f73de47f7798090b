"""Enrichment: both lanes, builds and rebuilds give the rows that plain Python joins, whatever changes when."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .joined import Joined

CASES = int(os.environ.get("HEADRACE_JOIN_CASES", "2"))
SQL = """
CREATE STREAM clicks (user_id STRING, k DECIMAL(6,1), n INT, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts);
CREATE TABLE users (id STRING PRIMARY KEY, plan STRING, least INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE TABLE codes (code DECIMAL(8,3) PRIMARY KEY, name STRING);
CREATE MATERIALIZED VIEW lefts AS SELECT u.plan, count(*) AS hits, sum(c.n) AS total
  FROM clicks c LEFT JOIN users u ON c.user_id = u.id GROUP BY u.plan;
CREATE MATERIALIZED VIEW inners AS SELECT u.plan, n, count(*) AS hits
  FROM clicks c JOIN users u ON u.id = c.user_id AND c.n >= u.least GROUP BY u.plan, n;
CREATE MATERIALIZED VIEW residuals AS SELECT u.plan, count(*) AS hits
  FROM clicks c LEFT JOIN users u ON u.id = c.user_id AND c.n >= u.least GROUP BY u.plan;
CREATE MATERIALIZED VIEW semis AS SELECT n, count(*) AS hits
  FROM clicks WHERE user_id IN (SELECT id FROM users WHERE plan <> 'free') GROUP BY n;
CREATE MATERIALIZED VIEW antis AS SELECT n, count(*) AS hits
  FROM clicks WHERE user_id NOT IN (SELECT id FROM users) GROUP BY n;
CREATE MATERIALIZED VIEW twos AS SELECT u.plan, d.name, count(*) AS hits
  FROM clicks c LEFT JOIN users u ON u.id = c.user_id LEFT JOIN codes d ON d.code = c.k GROUP BY u.plan, d.name;
CREATE MATERIALIZED VIEW timed AS SELECT u.plan, count(*) AS hits
  FROM clicks c LEFT JOIN users FOR SYSTEM_TIME AS OF c.ts u ON c.user_id = u.id GROUP BY u.plan;
"""
VIEWS = ("lefts", "inners", "residuals", "semis", "antis", "twos", "timed")
USERS = ["a", "b", "c", "", "ä", None]


def stamp(second: int) -> str:
    return f"2026-03-01T12:{second // 60:02d}:{second % 60:02d}Z"


class Model:
    """What the tables were, and the events with the version that each saw."""

    def __init__(self) -> None:
        self.changes: dict[str, list[tuple[int, int, int, dict[str, Any]]]] = {"users": [], "codes": []}
        self.versions = Counter[str]()
        self.events: list[tuple[dict[str, Any], int, dict[str, int]]] = []
        self.position = 0

    def change(self, table: str, *rows: tuple[int, dict[str, Any]]) -> None:
        for time, row in rows:
            self.position += 1
            self.changes[table].append((time, self.position, self.versions[table], row))
        self.versions[table] += 1

    def row(self, table: str, key: str, value: Any, version: int, upto: int = 1 << 40) -> dict[str, Any] | None:
        known = [c for c in self.changes[table] if c[3][key] == value and c[2] < version and c[0] <= upto]
        latest = max(known, key=lambda c: c[:2], default=None)
        return None if latest is None or value is None or latest[3].get("_deleted") else latest[3]

    def expected(
        self, pinned: dict[str, int] | None = None, fill: tuple[int, dict[str, int]] | None = None
    ) -> dict[str, Counter[Any]]:
        """The rows of all views. With `fill`, missing keys of so many events are looked for in these versions."""
        rows: dict[str, Counter[Any]] = {view: Counter() for view in VIEWS}
        for number, (event, second, recorded) in enumerate(self.events):
            pins = pinned or recorded
            later = fill[1] if fill and number < fill[0] else pins
            user = self.row("users", "id", event["user_id"], pins["users"])
            code = self.row("codes", "code", event["k"], pins["codes"])
            then = self.row("users", "id", event["user_id"], pins["users"], second)
            is_anti = event["user_id"] is not None and user is None
            user = user or self.row("users", "id", event["user_id"], later["users"])
            code = code or self.row("codes", "code", event["k"], later["codes"])
            then = then or self.row("users", "id", event["user_id"], later["users"], second)
            n, plan = event["n"], user and user["plan"]
            rows["lefts"][plan, "hits"] += 1
            rows["lefts"][plan, "total"] += n
            fits = user is not None and user["least"] is not None and n >= user["least"]
            if fits:
                rows["inners"][plan, n] += 1
            rows["residuals"][plan if fits else None] += 1
            if plan not in (None, "free"):
                rows["semis"][n] += 1
            if is_anti:
                rows["antis"][n] += 1
            rows["twos"][plan, code and code["name"]] += 1
            rows["timed"][then and then["plan"]] += 1
        return rows


def answers(joined: Any) -> dict[str, Counter[Any]]:
    rows: dict[str, Counter[Any]] = {view: Counter() for view in VIEWS}
    for row in joined.ask("lefts"):
        rows["lefts"][row["plan"], "hits"] += row["hits"]
        rows["lefts"][row["plan"], "total"] += row["total"]
    for view, keys in {"inners": ("plan", "n"), "twos": ("plan", "name")}.items():
        for row in joined.ask(view):
            rows[view][tuple(row[key] for key in keys)] += row["hits"]
    for view, key in {"residuals": "plan", "semis": "n", "antis": "n", "timed": "plan"}.items():
        for row in joined.ask(view):
            rows[view][row[key]] += row["hits"]
    return rows


def play(joined: Any, chance: random.Random, rounds: int, model: Model, *, only_fused: bool = False) -> None:
    """Changes of tables and events in any order; some changes are late, some delete."""
    for _ in range(rounds):
        match chance.choice(["users", "users", "codes", "clicks", "clicks"]):
            case "users":
                changes = []
                for _ in range(chance.randint(1, 4)):
                    second = chance.randrange(600)
                    key = chance.choice(USERS[:5])
                    row = {
                        "id": key,
                        "plan": chance.choice(["free", "pro", None]),
                        "least": chance.choice([0, 2, None]),
                    }
                    changes.append((second, {"id": key, "_deleted": True} if chance.random() < 0.25 else row))
                joined.parts["users"].send(*({**row, "at": stamp(second)} for second, row in changes))
                model.change("users", *changes)
            case "codes":
                row = {"code": chance.choice([1, 2.5]), "name": chance.choice("xy")}
                joined.parts["codes"].send(row)
                model.change("codes", (model.position, row))
            case _:
                events = []
                for _ in range(chance.randint(1, 6)):
                    event = {
                        "user_id": chance.choice([*USERS, "z"]),
                        "k": chance.choice([1, 2.5, 3]),
                        "n": chance.randrange(4),
                    }
                    second = chance.randrange(600)
                    events.append((event, second, dict(model.versions)))
                pins = {"users": model.versions["users"], "codes": model.versions["codes"]}
                joined.parts["clicks"].send(*({**event, "ts": stamp(second)} for event, second, _ in events))
                model.events += [(event, second, pins) for event, second, _ in events]
        if chance.random() < 0.4 and not only_fused:
            joined.maintain()


def fused_to(joined: Joined) -> dict[str, bool]:
    """Whether each view is at the end of the log."""
    assert not joined.parts["clicks"].fused.failures
    with joined.store.snapshot() as snapshot:
        end = joined.parts["clicks"].table.state.next_commit
        versions = {view: snapshot.serving(view) for view in VIEWS}
        return {view: each is not None and each.base("clicks").applied_to == end for view, each in versions.items()}


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("seed", range(CASES))
def test_rows_are_those_that_python_joins(spark: Any, tmp_path: Path, seed: int, fused: bool) -> None:
    chance, model = random.Random(f"joins {seed}"), Model()
    joined = Joined(spark, tmp_path, SQL, fused=fused)
    play(joined, chance, 6, model)
    early = len(model.events)
    for view in VIEWS:
        joined.register(view)
    joined.build()
    for view in VIEWS:
        joined.prepare(view)
    play(joined, chance, 12, model, only_fused=fused)
    if fused:
        while joined.parts["clicks"].fused.run_once():
            pass
        assert fused_to(joined) == dict.fromkeys(VIEWS, True)
    joined.maintain()
    joined.build()
    assert answers(joined) == model.expected(), early
    for view in VIEWS:
        joined.register(view)  # a rebuild
    joined.build()
    joined.maintain()
    assert answers(joined) == model.expected()
    if not fused:
        fill = (len(model.events), {name: model.versions[name] for name in ("users", "codes")})
        for view in VIEWS:
            joined.register(view, fill=True)
        joined.build()
        play(joined, chance, 4, model)
        joined.maintain()
        assert answers(joined) == model.expected(fill=fill)
    joined.close()
