"""Streams that are joined to tables, as events and dead letters: the rows that plain Python joins."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from headrace.define.catalog import Catalog, parse
from headrace.define.model import Stream
from headrace.deliver import table_changes
from headrace.deliver.event_log import EventLog
from headrace.deliver.failed_events import FailedCalls
from headrace.deliver.stream_logs import open_derived
from headrace.deliver.table_changes import TableChanges
from headrace.errors import NotReadyError
from headrace.lake.delta_table import LakeTable
from headrace.lake.parquet_file import LakeFileWriter
from headrace.lake.table_schema import DEAD, pin_column, table_schema
from headrace.lake.upkeep import Compaction
from headrace.store.version import Pinned
from headrace.transport.position import Position
from tests import wording

SQL = """
CREATE STREAM clicks (user_id STRING, k DECIMAL(6,1), n INT, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts);
CREATE TABLE users (id STRING PRIMARY KEY, plan STRING, least INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE TABLE codes (code DECIMAL(8,3) PRIMARY KEY, name STRING);
CREATE STREAM moves (person STRING, plan STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE TABLE lives PRIMARY KEY (person) AS SELECT m.person, m.at, u.least FROM moves m JOIN users u ON m.person = u.id;
CREATE STREAM lefts AS SELECT c.user_id, n, ts, u.plan FROM clicks c LEFT JOIN users u ON c.user_id = u.id;
CREATE STREAM inners AS SELECT user_id, n, ts, u.plan
  FROM clicks c JOIN users u ON u.id = c.user_id AND c.n >= u.least;
CREATE STREAM semis AS SELECT user_id, n, ts, 's' AS plan
  FROM clicks WHERE user_id IN (SELECT id FROM users WHERE plan <> 'free');
CREATE STREAM antis AS SELECT user_id, n, ts, 'a' AS plan FROM clicks WHERE user_id NOT IN (SELECT id FROM users);
CREATE STREAM twos AS SELECT user_id, n, ts, concat(coalesce(u.plan, ''), d.name) AS plan
  FROM clicks c JOIN users u ON u.id = c.user_id JOIN codes d ON d.code = c.k WHERE n > 0;
CREATE STREAM timed AS SELECT user_id, n, ts, u.plan
  FROM clicks c JOIN users FOR SYSTEM_TIME AS OF c.ts u ON c.user_id = u.id;
CREATE STREAM pieces AS SELECT p.user_id, p.n, p.ts, u.plan
  FROM (SELECT explode(split(user_id, ' ')) AS user_id, n, ts FROM clicks) p JOIN users u ON p.user_id = u.id;
CREATE STREAM nested AS SELECT user_id, n, ts, CAST(l.least AS STRING) AS plan
  FROM clicks c JOIN lives l ON l.person = c.user_id;
"""
DERIVED = ("lefts", "inners", "semis", "antis", "twos", "timed", "pieces", "nested")
USERS = ["a", "b", "c", "a b", None, "z"]
Row = dict[str, Any]


def moment(second: int) -> datetime:
    return datetime(2026, 3, 1, 12, second // 60, second % 60, tzinfo=UTC)


class World:
    """Lakes of streams and tables, and what plain Python knows of them."""

    def __init__(self, folder: Path) -> None:
        self.catalog: Catalog = parse(SQL)
        self.lakes = {
            name: LakeTable(folder / name, stream, fence=1) for name, stream in self.catalog.base_streams.items()
        }
        self.log: list[tuple[str, int, int, Row, dict[str, int]]] = []  # stream, commit, position, row, pins

    def versions(self) -> dict[str, int]:
        return {name: lake.state.next_commit for name, lake in self.lakes.items()}

    def commit(self, name: str, rows: list[Row], pins: dict[str, int]) -> None:
        lake, stream = self.lakes[name], self.catalog.base_streams[name]
        with lake.turn:
            at = lake.state
            first = at.position.offset()
            self.log += [(name, at.next_commit, first + number, row, pins) for number, row in enumerate(rows)]
            writer = LakeFileWriter(lake.storage, at.next_commit, dead=False)
            writer.write(lake_rows(stream, at.next_commit, first, rows, pins))
            file = writer.close()
            lake.commit(at, Position.at(first + len(rows)), first, [file] if file else [])

    def find(self, name: str) -> tuple[Stream, LakeTable | None]:
        return self.catalog.base_streams[name], self.lakes[name]

    def play(self, chance: random.Random, rounds: int) -> None:
        """Commits of tables and streams in any order; some changes are late, some delete; some commits have no pins."""
        for _ in range(rounds):
            name = chance.choice(["users", "users", "codes", "moves", "clicks", "clicks", "clicks"])
            rows = [self.row(name, chance) for _ in range(chance.randint(1, 5))]
            self.commit(name, rows, self.versions() if chance.random() < 0.9 else {})
            if chance.random() < 0.1:
                Compaction(self.lakes[name], gather=2, group_rows=3).run_once()

    def row(self, name: str, chance: random.Random) -> Row:
        when = moment(chance.randrange(600))
        if name == "users":
            key, deleted = chance.choice(USERS[:3]), chance.random() < 0.3
            row = {"id": key, "at": when, "_deleted": deleted or None}
            plan, least = chance.choice(["free", "pro", None]), chance.choice([0, 2, None])
            return row if deleted else {**row, "plan": plan, "least": least}
        if name == "codes":
            return {"code": chance.choice([1, 2]), "name": chance.choice("xy"), "_deleted": chance.random() < 0.2}
        if name == "moves":
            return {"person": chance.choice(USERS[:3]), "at": when}
        return {"user_id": chance.choice(USERS), "k": chance.choice([1, 2, 3]), "n": chance.randrange(4), "ts": when}

    # What plain Python makes of it

    def latest(self, table: str, key: str, value: Any, version: int, upto: datetime | None = None) -> Row | None:
        """The row of a declared table at a version."""
        known = [
            (row.get("at") or moment(0), position, row)
            for name, commit, position, row, _ in self.log
            if name == table and row[key] == value and commit < version
        ]
        known = [each for each in known if upto is None or each[0] <= upto]
        last = max(known, key=lambda each: each[:2], default=None)
        return None if last is None or last[2].get("_deleted") else last[2]

    def life(self, person: Any, version: int) -> Row | None:
        """The row of the table that is made of another stream, and joined itself."""
        known = []
        for name, commit, position, row, pins in self.log:
            if name == "moves" and row["person"] == person and commit < version:
                user = self.latest("users", "id", person, pins.get("users", 0))
                known += [(row["at"], position, user)] if user else []
        last = max(known, key=lambda each: each[:2], default=None)
        return last and last[2]

    def expected(self, derived: str, fill: tuple[int, dict[str, int]] | None = None) -> tuple[list[Any], list[Any]]:
        """Its events, and its dead letters. Missing keys of commits before one are looked for in versions of `fill`."""
        events: list[Any] = []
        letters: list[Any] = []
        for name, commit, position, row, pins in self.log:
            if name != "clicks":
                continue
            texts = (row["user_id"] or "").split() if derived == "pieces" else [row["user_id"]]
            for text in texts:
                later = fill[1] if fill and commit < fill[0] else {}
                plans, missing = self.joined(derived, {**row, "user_id": text}, pins, later)
                events += [(commit, position, [text, row["n"], plan]) for plan in plans]
                letters += [(commit, position, reason) for reason in missing]
        return events, letters

    def joined(
        self, derived: str, row: Row, pins: dict[str, int], later: dict[str, int]
    ) -> tuple[list[Any], list[str]]:
        text, upto = row["user_id"], row["ts"] if derived == "timed" else None

        def find(table: str, column: str, value: Any) -> Row | None:
            found = [self.latest(table, column, value, versions.get(table, 0), upto) for versions in (pins, later)]
            return None if value is None else found[0] or found[1]

        user = (
            find("users", "id", text) if derived != "antis" else self.latest("users", "id", text, pins.get("users", 0))
        )
        key = "NULL" if text is None else f"'{text}'"
        missing = [f"missing key: table 'users' has no row with id = {key}"] if user is None else []
        plan = user.get("plan") if user else None
        match derived:
            case "lefts":
                return [plan], []
            case "inners":
                fits = user is not None and user["least"] is not None and row["n"] >= user["least"]
                return [plan] * fits, missing
            case "semis":
                return ["s"] * (plan not in (None, "free")), missing
            case "antis":
                return ["a"] * (text is not None and user is None), []
            case "twos":
                if user is None:
                    return [], missing
                code = find("codes", "code", row["k"])
                if code is None:
                    return [], [f"missing key: table 'codes' has no row with code = {row['k']}.000"]
                return [(plan or "") + code["name"]] * (row["n"] > 0), []
            case "nested":
                life = self.life(text, pins.get("moves", 0)) or self.life(text, later.get("moves", 0))
                if life is None:
                    return [], [f"missing key: table 'lives' has no row with person = {key}"]
                return [None if life["least"] is None else str(life["least"])], []
        return [plan] * (user is not None), missing


def lake_rows(stream: Stream, commit: int, first: int, rows: list[Row], pins: dict[str, int]) -> pa.Table:
    count = len(rows)
    ours = {
        "_commit": commit,
        "_committed_at": moment(0),
        "_arrived": moment(0),
        "_newest": None,
        "_reason": None,
        "_value": b"{}",
    }
    columns: dict[str, Any] = {}
    for field in table_schema(stream):
        if field.name == "_tables":
            columns[field.name] = pin_column(pins, count)
        elif field.name == "_position":
            columns[field.name] = pa.array(range(first, first + count), pa.int64())
        elif field.name != DEAD:
            values = [ours.get(field.name)] * count if field.name in ours else [row.get(field.name) for row in rows]
            columns[field.name] = pa.array(values, field.type)
    return pa.table(columns)


def open_log(world: World, name: str, tables: TableChanges) -> Any:
    base = world.catalog.streams["clicks"]
    logs = {"clicks": EventLog(world.lakes["clicks"], lambda: base)}
    return open_derived(lambda: world.catalog.streams[name], {"clicks": lambda: base}, logs, tables)


def letters_of(world: World, name: str, tables: TableChanges, **options: Any) -> FailedCalls:
    base = (partial(lambda: world.catalog.streams["clicks"]), world.lakes["clicks"])
    return FailedCalls(world.catalog.streams[name], {"clicks": base}, tables=tables, **options)


def read(log: Any, cursor: Any) -> list[Any]:
    events: list[Any] = []
    while True:
        page = log.after(cursor, None, 7)
        events += map(orjson.loads, page.lines)
        cursor = page.cursor
        if not page.more:
            return [
                (e["commit"], e["position"], [e["event"][name] for name in ("user_id", "n", "plan")]) for e in events
            ]


@pytest.mark.parametrize("seed", range(3))
def test_events_and_dead_letters_are_those_of_plain_python(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, world = random.Random(f"joined {seed}"), World(tmp_path)
    if seed % 2:
        monkeypatch.setattr(table_changes, "MOST_CHANGES", 30)  # rows are joined in parts
        monkeypatch.setattr(table_changes, "STEP_ROWS", 5)
    tables = TableChanges(world.find)
    letters = {name: letters_of(world, name, tables) for name in DERIVED}
    for _ in range(2):
        world.play(chance, 15)
        for name in DERIVED:
            events, missing = world.expected(name)
            log = open_log(world, name, tables)
            assert read(log, log.start("earliest")) == events, name
            middle = log.parse(f"{chance.randrange(world.versions()['clicks'] + 1)}-0")
            assert read(log, middle) == [each for each in events if each[:2] > (middle.commit, 0)]
            page = letters[name].page(limit=10_000)
            assert page.total == len(missing)
            found = [(each.commit, each.position, each.reason) for each in reversed(page.dead_letters)]
            assert Counter(found) == Counter(missing), name
            kinds = {f"missing key: table '{table}' has no row with this {key}" for table, key in KEYS.items()}
            assert {each.reason for each in letters[name].reasons()} <= kinds
            assert sum(each.count for each in letters[name].reasons()) == len(missing)


def test_missing_keys_are_looked_for_in_a_later_version(tmp_path: Path) -> None:
    chance, world = random.Random("missing"), World(tmp_path)
    tables = TableChanges(world.find)
    world.play(chance, 25)
    fill = (world.versions()["clicks"], world.versions())
    pinned = Pinned(fill=tuple(fill[1].items()), fill_until=(("clicks", fill[0]),))
    world.play(chance, 10)
    for name in DERIVED:
        recorded, filled = letters_of(world, name, tables), letters_of(world, name, tables, pinned=pinned)
        missing, still_missing = world.expected(name)[1], world.expected(name, fill)[1]
        assert recorded.page().total == len(missing)
        page = filled.page(limit=10_000)
        found = [(each.commit, each.position, each.reason) for each in reversed(page.dead_letters)]
        assert Counter(found) == Counter(still_missing), name
        now = world.versions()
        recorded.refill = dict
        last = world.expected(name, (now["clicks"], now))[1]
        step = recorded.replay(dry_run=True)
        assert (step.read, step.readable) == (len(missing), len(missing) - len(last))


def test_a_table_that_takes_long_to_read_is_read_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_changes, "STEP_ROWS", 1)
    world = World(tmp_path)
    for number in range(5):
        world.commit("users", [{"id": f"u{number}", "at": moment(0)}], {})
    world.commit(
        "clicks", [{"user_id": "u4", "n": 1, "ts": moment(1)}, {"user_id": "u5", "ts": moment(1)}], {"users": 5}
    )
    letters = letters_of(world, "lefts", TableChanges(world.find), patience_s=0.0)
    assert letters.page().total == 0  # of a LEFT JOIN
    letters = letters_of(world, "inners", TableChanges(world.find), patience_s=0.0)
    for number in range(1, 5):
        with wording.raises(NotReadyError, "users", 5, number):
            letters.page()
    assert [each.position for each in letters.page().dead_letters] == [1]
    assert letters.count(0.0) == 1


KEYS = {"users": "id", "codes": "code", "lives": "person"}
