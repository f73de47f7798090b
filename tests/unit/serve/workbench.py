"""A view in a real store that changes in every way that a view can."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.define.catalog import parse
from headrace.define.model import View
from headrace.define.outgoing_rules import row_keys
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Step, Store
from headrace.store.version import Version
from headrace.transport.position import Position
from tests.contracts.store.layers import audit, find, point, write
from tests.unit.store.partial_files import Event

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
STREAM = """CREATE STREAM events (k0 STRING, i INT, b BIGINT, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 0 SECONDS);"""


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
            retired = [v for v in snapshot.versions() if v.state == "retired" and v.complete]
        if retired:
            self.store.revive("v", retired[-1].number)
            self.catch_up(retired[-1])
            self.store.promote("v", retired[-1].number)

    def rows(self, **question: Any) -> dict[Any, Any]:
        """The rows of the default question."""
        found: dict[Any, Any] = {}
        cursor = None
        while True:
            page = answer(self.store, Question.of("v", cursor=cursor, **question), up_to_date, NOW)
            found |= {tuple(row[name] for name in row_keys(self.serving().view)): row for row in page.rows()}
            cursor = page.next_cursor
            if cursor is None:
                return found


@contextmanager
def bench(patience_ms: int = 0) -> Iterator[Workbench]:
    with tempfile.TemporaryDirectory() as name:
        store = DuckStore.open(Path(name) / "store", fence=1)
        store.follow("v", "test")
        try:
            yield Workbench(store, Path(name), patience_ms)
        finally:
            store.close()
