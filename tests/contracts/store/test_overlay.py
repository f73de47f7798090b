"""Rows that are held while steps add to them give what is computed from all events, whatever is written between."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.duckdb.row_cache import CachedView, Lookups
from headrace.store.selection import Selection
from headrace.store.store_contract import Snapshot, Store
from headrace.store.version import Version
from headrace.types import INT, STRING
from tests import wording
from tests.contracts.store.layers import build, end_beat, find, merge, serving, step, versions, write
from tests.contracts.store.reference import expected, presented, same_rows
from tests.unit.store.partial_files import Event, make_view, simple_event

MINUTE = 60_000
EVERY = make_view("traffic", (STRING, INT))
VIEW = replace(EVERY, columns=tuple({column.aggregate.name: column for column in EVERY.columns}.values()))
NARROW = replace(VIEW, columns=VIEW.columns[:4])
KEYS = ["/a", "/b", "/c", None]


def event_of(first: str | None, second: int, at_ms: int, n: int) -> Event:
    return replace(simple_event(first, at_ms, n), keys=(first, second))


class Writer:
    """Does to a view what the two layers, edits and rollbacks do; most steps come as tables, as in the fused lane."""

    def __init__(self, store: Store, folder: Path, seed: int) -> None:
        self.store, self.folder, self.chance = store, folder, random.Random(seed)
        self.commits: list[list[Event]] = []
        actions: list[Callable[[], object]] = [self.beat, self.edit, self.rename, self.roll_back, self.merge_file]
        self.actions = [self.append] * 8 + actions
        store.register(VIEW, "f1", {"events": 5})
        self.append()

    def act(self) -> None:
        self.chance.choice(self.actions)()

    def next_commit(self) -> list[Event]:
        count = self.chance.choice([0, 1, 3, 20])
        late = self.chance.randrange(4) * MINUTE
        at_ms = max(0, len(self.commits) * MINUTE // 4 - late)
        self.commits.append([event_of(self.chance.choice(KEYS), n % 3, at_ms, n) for n in range(count)])
        return self.commits[-1]

    def append(self) -> None:
        self.apply(serving(self.store), self.next_commit())

    def apply(self, version: Version, events: list[Event]) -> None:
        at = find(self.store, version).bases[0].applied_to
        tables = [pq.read_table(write(self.folder, version.view, half)) for half in (events[::2], events[1::2])]
        self.store.apply(step(at, at + 1), {version.id: tables})

    def merge_file(self) -> None:
        merge(self.store, self.folder, serving(self.store), self.next_commit())

    def beat(self) -> None:
        base = serving(self.store).bases[0]
        if base.next_horizon is not None:
            events = [event for commit in self.commits[base.horizon : base.next_horizon] for event in commit]
            end_beat(self.store, self.folder, serving(self.store), events, merged=self.chance.random() < 0.5)
        elif base.applied_to > base.horizon:
            self.store.begin_beat("traffic", serving(self.store).number, "events")

    def edit(self) -> None:
        if serving(self.store).bases[0].next_horizon is None:
            view = self.chance.choice([VIEW, NARROW])
            version = build(self.store, self.folder, self.commits, view, f"f{self.chance.random()}")
            self.store.promote("traffic", version.number)

    def rename(self) -> None:
        number = serving(self.store).number
        self.store.adopt(serving(self.store).view, f"f{self.chance.random()}", {"events": 7}, number)

    def roll_back(self) -> None:
        retired = [version for version in versions(self.store) if not version.live and version.complete]
        if retired:
            self.store.revive("traffic", retired[-1].number)
            for commit in self.commits[find(self.store, retired[-1]).bases[0].applied_to :]:
                self.apply(retired[-1], commit)
            self.store.promote("traffic", retired[-1].number)


def look_up(writer: Writer) -> None:
    """Ask for keys, or some of their columns, and compare with what all events so far give."""
    chance = writer.chance
    one, other = chance.choice(KEYS), chance.choice(KEYS)
    where = chance.choice(
        [({"k0": one, "k1": 1},), ({"k0": one},), ({"k1": 2},), ({"k0": one}, {"k0": other, "k1": 0})]
    )
    selection = Selection(
        by=chance.choice([("k0", "k1"), ("k0",), ("k1",)]),
        where=where,
        panes=chance.choice([(None, None), (2 * MINUTE, None)]),
        bucket_ms=chance.choice([None, MINUTE, 5 * MINUTE]),
    )

    def read(snapshot: Snapshot) -> tuple[Version, list[tuple[Any, ...]]]:
        version = snapshot.serving("traffic")
        assert version is not None
        return version, snapshot.rows(version, selection)

    version, rows = writer.store.read_cached(read) or writer.store.read(read)
    base = version.bases[0]
    batch, speed = (
        [event for commit in commits for event in commit]
        for commits in (writer.commits[: base.horizon], writer.commits[base.horizon : base.applied_to])
    )
    assert same_rows(presented(version.view, selection, rows), expected(version.view, batch, speed, selection))


@pytest.mark.parametrize("seed", range(3))
def test_lookups_with_steps_beside_held_rows_give_the_reference(
    store: DuckStore, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    find_rows = CachedView.find

    def counted(self: CachedView, *arguments: object) -> object:
        steps.append(len(self.steps))
        return find_rows(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(CachedView, "find", counted)
    writer = Writer(store, tmp_path, seed)
    for _ in range(25):
        for _ in range(writer.chance.choice([0, 3, 10])):
            look_up(writer)
        writer.act()
    assert sum(count > 0 for count in steps) > 15, "many answers came from rows with steps beside them"


def test_a_step_that_fails_leaves_the_rows_as_they_were(store: DuckStore, tmp_path: Path) -> None:
    writer = Writer(store, tmp_path, 1)
    for _ in range(20):
        look_up(writer)
    version = serving(store)
    tables = [pq.read_table(write(tmp_path, VIEW, [event_of("/a", 1, 0, 1)]))]
    at = version.bases[0].applied_to
    with wording.raises(Exception, 99):
        store.apply(step(at, at + 1), {version.id: tables, ("traffic", 99): tables})
    for _ in range(10):
        look_up(writer)
    writer.append()
    for _ in range(10):
        look_up(writer)


def test_rows_that_nobody_asks_for_are_dropped(store: DuckStore, tmp_path: Path) -> None:
    writer = Writer(store, tmp_path, 1)
    for _ in range(20):
        look_up(writer)
    lookups: Lookups = store._transactions._lookups
    assert lookups._demand["traffic"].cached
    for _ in range(25):
        writer.append()
    assert lookups._demand["traffic"].cached is None
    look_up(writer)
