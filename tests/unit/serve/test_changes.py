"""Who applies the changes of a view, from any cursor, in batches of any size, has the rows of its default question."""

from __future__ import annotations

import hashlib
import math
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.define.catalog import parse
from headrace.define.model import View
from headrace.serve.changes import ChangeBatch, Cursor, changes_after
from headrace.serve.evaluate import answer
from headrace.serve.question import Question
from headrace.store.base import Step, Store, Version
from headrace.store.duckdb import log
from headrace.store.duckdb.store import DuckStore
from headrace.transport.position import Position
from tests.contracts.store.layers import audit, find, point, write
from tests.unit.store.partial_files import Event, simple_event

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE, HOUR = 60_000, 3_600_000
STREAM = """CREATE STREAM events (k0 STRING, i INT, b BIGINT, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 0 SECONDS);"""
WINDOWS = (
    "window(at, '1 minute')",
    "window(at, '3 minutes', '1 minute')",
    "window(at, '4 minutes', '2 minutes')",
    "CUMULATE(at, INTERVAL 2 MINUTES, INTERVAL 10 MINUTES)",
    "window(at, '10 minutes')",
    "date_trunc('hour', at)",
    "date_trunc('day', at)",
    None,
)
SHAPES = ("", "HAVING count(*) > 2", "HAVING sum(b) % 2 = 0", "ORDER BY n DESC", "HAVING n > 1 ORDER BY n DESC LIMIT 3")
KEYS = ("a", "b", None, "é")


def view_of(
    window: str | None, shape: str = "", outputs: str = "count(*) AS n, sum(b) AS b, sum(b) / count(*) AS m"
) -> View:
    groups = ", ".join(["k0", *([window] if window else [])])
    select = f"SELECT k0, {outputs} FROM events GROUP BY {groups} {shape}"
    return parse(f"{STREAM} CREATE MATERIALIZED VIEW v AS {select};").views["v"]


@dataclass
class Workbench:
    """A view that changes in every way that a view can."""

    store: Store
    folder: Path
    patience_ms: int = 0
    events: list[list[Event]] = field(default_factory=list)  # of each commit
    left_out: dict[int, Any] = field(default_factory=dict)  # the key that the WHERE of a version leaves out
    fingerprint: int = 0

    def start(self, view: View) -> None:
        self.store.register(view, self.new_fingerprint(), {"events": self.patience_ms})

    def new_fingerprint(self) -> str:
        self.fingerprint += 1
        return hashlib.sha256(str(self.fingerprint).encode()).hexdigest()

    def serving(self) -> Version:
        with self.store.snapshot() as snapshot:
            version = snapshot.serving("v")
        assert version is not None
        return version

    def newest_us(self, commits: int) -> int | None:
        times = [event.at_ms for events in self.events[:commits] for event in events]
        return max(times) * 1000 if times else None

    def step(self, start: int, end: int) -> Step:
        return Step("events", start, end, Position.at(end), self.newest_us(end), at_us=end)

    def commit(self, events: list[Event]) -> None:
        self.events.append(events)
        self.catch_up(self.serving())

    def of(self, version: Version, start: int, end: int) -> list[Event]:
        left_out = self.left_out.get(version.number, "none")
        return [event for commit in self.events[start:end] for event in commit if event.keys[0] != left_out]

    def catch_up(self, version: Version) -> None:
        at = find(self.store, version).bases[0].applied_to
        for commit in range(at, len(self.events)):
            events = self.of(version, commit, commit + 1)
            files = [str(write(self.folder, version.view, events))] if events else []
            self.store.apply(self.step(commit, commit + 1), {version.id: files})

    def refresh(self) -> None:
        version = self.serving()
        base = version.bases[0]
        if base.applied_to <= base.horizon:
            return
        begun = self.store.begin_beat("v", version.number, "events")
        horizon = begun.bases[0].next_horizon
        assert horizon is not None
        file = write(self.folder, begun.view, self.of(begun, base.horizon, horizon))
        table = self.store.make_batch_table(begun, (base.horizon, horizon), [file])
        self.store.end_beat(begun, [*begun.batch, table], audit(begun))

    def edit_free(self, view: View) -> None:
        """HAVING, names, the patience."""
        number = self.serving().number
        version = self.store.adopt(view, self.new_fingerprint(), {"events": self.patience_ms}, number)
        self.left_out[version.number] = self.left_out.get(number, "none")

    def edit(self, view: View, left_out: Any) -> None:
        """Another WHERE."""
        commits = len(self.events)
        at = replace(point(commits), newest_us=self.newest_us(commits))
        version = self.store.register(view, self.new_fingerprint(), {"events": self.patience_ms}, {"events": at})
        self.left_out[version.number] = left_out
        if commits:
            self.store.build("v", version.number, "events", commits)
            file = write(self.folder, view, self.of(version, 0, commits))
            table = self.store.make_batch_table(version, (0, commits), [file])
            self.store.fill("v", version.number, "events", table)
        self.store.promote("v", version.number)

    def roll_back(self) -> None:
        with self.store.snapshot() as snapshot:
            retired = [v for v in snapshot.versions() if v.state == "retired" and v.whole]
        if retired:
            self.store.revive("v", retired[-1].number)
            self.catch_up(retired[-1])
            self.store.promote("v", retired[-1].number)

    def rows(self, **question: Any) -> dict[Any, Any]:
        """The rows of the default question."""
        found: dict[Any, Any] = {}
        cursor = None
        while True:
            page = answer(self.store, Question.of("v", cursor=cursor, **question), lambda version: (0, None), NOW)
            found |= {(r["k0"], r["window_start"], r["window_end"]): r for r in page.rows()}
            cursor = page.next_cursor
            if cursor is None:
                return found


@dataclass
class Reader:
    """Applies changes, as a table with a primary key would."""

    store: Store
    limit: int
    on_close: bool = False
    rows: dict[Any, Any] = field(default_factory=dict)
    cursor: Cursor | None = None
    batches: list[ChangeBatch] = field(default_factory=list)

    def read(self) -> bool:
        """One batch; whether there is more."""
        batch = changes_after(self.store, "v", self.cursor, limit=self.limit, on_close=self.on_close)
        if batch.restarted:
            self.rows.clear()
        for change in batch.changes:
            place = (change.row["k0"], change.row["window_start"], change.row["window_end"])
            assert (change.version, change.commit) == (batch.version, batch.commit)
            if change.op == "upsert":
                self.rows[place] = dict(change.row)
            else:
                self.rows.pop(place, None)
        self.cursor = Cursor.from_text(batch.cursor.to_text())
        assert self.cursor == batch.cursor
        self.batches.append(batch)
        return batch.more

    def catch_up(self) -> int:
        """Read to the end; returns how many changes there were."""
        self.batches = []
        for _ in range(10_000):
            if not self.read():
                return sum(map(len, self.batches))
        raise AssertionError("the changes do not end")


@contextmanager
def bench(patience_ms: int = 0) -> Iterator[Workbench]:
    with tempfile.TemporaryDirectory() as name:
        store = DuckStore.open(Path(name) / "store", fence=1)
        store.follow("v", "test")
        try:
            yield Workbench(store, Path(name), patience_ms)
        finally:
            store.close()


def same(a: dict[Any, Any], b: dict[Any, Any]) -> bool:
    return a.keys() == b.keys() and all(_same_row(a[key], b[key]) for key in a)


def _same_row(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(
        x == y or (isinstance(x, float) and isinstance(y, float) and math.isclose(x, y, rel_tol=1e-9))
        for x, y in ((a[name], b[name]) for name in a)
    )


def some_events(chance: random.Random, commit: int) -> list[Event]:
    """About the time of a commit, and some late ones."""
    start = commit * 2 * MINUTE
    return [
        simple_event(
            chance.choice(KEYS),
            max(
                0,
                start + chance.randrange(3 * MINUTE) - (chance.randrange(40 * MINUTE) if chance.random() < 0.2 else 0),
            ),
            chance.randrange(10),
        )
        for _ in range(chance.choice([0, 1, 3, 8]))
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("window", WINDOWS)
def test_changes_end_with_the_rows_of_the_view(window: str | None, shape: str) -> None:
    change_at_random(window, shape, seed=0)


def change_at_random(window: str | None, shape: str, seed: int) -> None:
    chance = random.Random(f"{window} {shape} {seed}")
    with bench(chance.choice([0, 3]) * MINUTE) as view:
        view.start(view_of(window, shape))
        readers = [Reader(view.store, limit=limit) for limit in (2, 1000)]
        if window and "LIMIT" not in shape:
            readers += [Reader(view.store, limit=3, on_close=True)]
        stale: list[Reader] = []
        for at in range(14):
            match chance.choice(["commit"] * 6 + ["refresh", "free", "edit", "shape", "rollback", "trim", "pause"]):
                case "commit":
                    view.commit(some_events(chance, at))
                case "refresh":
                    view.refresh()
                case "free":
                    view.edit_free(view_of(window, shape, "sum(b) AS b, count(*) AS n"))
                case "shape":
                    shape = chance.choice(SHAPES[:4]) if "LIMIT" not in shape else shape
                    view.edit_free(view_of(window, shape))
                case "edit":
                    view.edit(view_of(window, shape), left_out=chance.choice(KEYS))
                case "rollback":
                    view.roll_back()
                case "trim":
                    trim_log(view)
                case "pause":
                    stale = [replace(reader, rows=dict(reader.rows)) for reader in readers]
            for reader in readers:
                for _ in range(chance.choice([0, 0, 1, 2, 5])):
                    reader.read()
        expected = view.rows()
        for reader in [*readers, *stale, Reader(view.store, 7)]:
            reader.catch_up()
            wanted = {k: v for k, v in expected.items() if v["settled"]} if reader.on_close else expected
            assert same(reader.rows, wanted)
            assert reader.catch_up() == 0


def trim_log(view: Workbench) -> None:
    """As if the log had become too long."""
    store = view.store
    assert isinstance(store, DuckStore)
    kept, log.MOST_CELLS = log.MOST_CELLS, 0
    try:
        with store._transaction() as connection:
            log.trim(connection, view.serving(), 0)
    finally:
        log.MOST_CELLS = kept
