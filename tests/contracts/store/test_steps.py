"""Steps of the speed layer: whole or not at all, told cell by cell, and never seen in part."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.errors import FencedError
from headrace.store.partial_columns import CORRECTIONS, KEY_ID, PANE
from headrace.store.selection import Selection
from headrace.store.store_contract import Store
from headrace.store.version import Point
from headrace.transport.position import START, Position
from headrace.types import DOUBLE, STRING, TIMESTAMP
from tests import wording
from tests.contracts.store.conftest import Place
from tests.contracts.store.layers import TOTAL, VIEW, build, counted, end_beat, find, merge, serving, step, write
from tests.unit.store.partial_files import Event, make_view, simple_event, write_partials

MINUTE = 60_000


def test_a_step_without_files_still_moves(store: Store) -> None:
    version = store.register(VIEW, "a", {"events": 5})
    store.apply(step(0, 3), {version.id: []})
    moved = serving(store)
    assert (moved.bases[0].applied_to, moved.bases[0].position) == (3, Position.at(30))
    assert (moved.newest_us, moved.bases[0].applied_at_us) == (180_000_000, 3)


@pytest.mark.parametrize("position", [START, Position.at(10**12), Position((3, 0, 7)), None])
def test_a_position_is_there_after_a_restart(place: Place, position: Position | None) -> None:
    store = place.open(1)
    version = store.register(VIEW, "a", {"events": 5}, {"events": Point(0, Position((1, 2)), None)})
    assert version.bases[0].position == Position((1, 2))
    store.apply(replace(step(0, 1), position=position), {(VIEW.name, 1): []})
    assert serving(store).bases[0].position == position
    store.close()
    again = place.open(2)
    assert serving(again).bases[0].position == position
    again.close()


def test_files_may_share_cells_and_each_merge_adds_to_those_before(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "a", {"events": 5})
    files = [str(write(tmp_path, VIEW, [simple_event("/a", 0), simple_event(None, 0)])) for _ in range(2)]
    store.apply(step(0, 1), {version.id: files})
    store.apply(step(1, 2), {version.id: [*files, str(write(tmp_path, VIEW, [simple_event("/a", MINUTE)]))]})
    with store.snapshot() as snapshot:
        rows = snapshot.rows(serving(store), Selection(by=("k0",), bucket_ms=MINUTE))
        assert [row[:3] for row in rows] == [(0, None, 4), (0, "/a", 4), (MINUTE, "/a", 1)]
        assert snapshot.count(serving(store)) == (0, 3)
        assert snapshot.speed_events(serving(store)) == 9


def test_corrections_are_added_up(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "a", {"events": 5})
    file = write(tmp_path, VIEW, [simple_event("/a", 0), simple_event("/b", 0)])
    table = pq.read_table(file)
    at = table.column_names.index(CORRECTIONS)
    pq.write_table(table.set_column(at, CORRECTIONS, pa.array([1, 2], pa.int64())), file)
    store.apply(step(0, 1), {version.id: [str(file)]})
    store.apply(step(1, 2), {version.id: [str(file)]})
    with store.snapshot() as snapshot:
        assert [row[:4] for row in snapshot.rows(version, TOTAL)] == [(0, 4, 6, 0)]


def test_a_step_that_does_not_fit_changes_nothing(store: Store, tmp_path: Path) -> None:
    store.register(VIEW, "a", {"events": 5})
    other = make_view("other")
    store.register(other, "b", {"events": 5})
    store.apply(step(0, 1), {("other", 1): []})
    file = write_partials(tmp_path / "p", VIEW, [simple_event("/a", 0)])
    with wording.raises(FencedError, "other", 1, 0, 7):
        store.apply(step(0, 1), {("traffic", 1): [file], ("other", 1): [file]})
    assert serving(store).bases[0].applied_to == 0
    assert counted(store, serving(store)) == 0


def test_an_unreadable_file_changes_nothing(store: Store, tmp_path: Path) -> None:
    store.register(VIEW, "a", {"events": 5})
    (tmp_path / "bad.parquet").write_bytes(b"not parquet")
    with pytest.raises(Exception, match=r"bad\.parquet"):
        store.apply(step(0, 1), {("traffic", 1): [str(tmp_path / "bad.parquet")]})
    assert serving(store).bases[0].applied_to == 0
    store.apply(step(0, 1), {("traffic", 1): []})  # the store goes on


# What a step changed


def cells(table: pa.Table) -> list[tuple[Any, ...]]:
    assert table.column_names[:2] == [KEY_ID, PANE]
    assert len(set(zip(table[KEY_ID].to_pylist(), table[PANE].to_pylist(), strict=True))) == table.num_rows
    return sorted((tuple(row.values())[1:] for row in table.to_pylist()), key=repr)


def test_a_step_says_which_cells_it_changed(store: Store, tmp_path: Path) -> None:
    first, other = (
        store.register(VIEW, "a", {"events": 5}),
        store.register(make_view("other", keys=()), "b", {"events": 5}),
    )
    before = [simple_event("/a", 0), simple_event("/b", 0)]
    merge(store, tmp_path, first, before)
    store.apply(step(0, 1), {other.id: []})
    files = [str(write(tmp_path, VIEW, [simple_event(key, at)])) for key, at in (("/a", 0), ("/a", 1), (None, MINUTE))]
    total = str(write(tmp_path, other.view, [Event((), 0, simple_event(None, 0).values)]))
    changes = store.apply(step(1, 3), {first.id: files, other.id: [total]})
    assert (changes.step.from_commit, changes.step.to_commit) == (1, 3)
    assert list(changes.partials) == [first.id, other.id]
    assert cells(changes.cells(first)) == [(0, "/a"), (MINUTE, None)]
    assert cells(changes.cells(other)) == [(0,)]
    assert cells(store.apply(step(3, 4), {first.id: []}).cells(first)) == []


def test_changed_cells_have_keys_of_the_view_s_types(store: Store, tmp_path: Path) -> None:
    view = make_view("typed", keys=(STRING, DOUBLE, TIMESTAMP))
    version = store.register(view, "a", {"events": 5})
    day = datetime(1, 1, 1, tzinfo=UTC)  # beyond what nanoseconds can hold
    values = simple_event(None, 0).values
    events = [Event(("/a", math.nan, day), 0, values), Event((None, None, None), 0, values)]
    file = write(tmp_path, view, events)
    table = pq.read_table(file)
    pq.write_table(table, file, use_deprecated_int96_timestamps=True)  # as Spark may write them
    changed = store.apply(step(0, 1), {version.id: [str(file)]}).cells(version)
    assert changed.schema.types[2:] == [pa.string(), pa.float64(), pa.timestamp("us", "UTC")]
    missing, found = cells(changed)[1], cells(changed)[0]
    assert (found[1], math.isnan(found[2]), found[3], missing) == ("/a", True, day, (0, None, None, None))


# Readers beside a writer


def test_a_snapshot_stays_as_it_was(store: Store, tmp_path: Path) -> None:
    version = build(store, tmp_path, [[simple_event("/a", 0)]])
    store.promote("traffic", 1)
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    with store.snapshot() as snapshot:
        before = snapshot.versions()
        begun = store.begin_beat("traffic", 1, "events")
        merge(store, tmp_path, version, [simple_event("/b", 0)])
        end_beat(store, tmp_path, begun, [simple_event("/a", 0)], merged=True)
        assert snapshot.versions() == before
        assert snapshot.serving("traffic") == before[0]
        assert snapshot.rows(before[0], TOTAL)[0][1] == 2
        assert snapshot.count(before[0]) == (1, 1)
    assert counted(store, serving(store)) == 3
    assert find(store, version).bases[0].horizon == 2


def test_readers_never_see_half_a_merge(store: Store, tmp_path: Path) -> None:
    pages = 50
    store.register(VIEW, "a", {"events": 5})
    store.register(make_view("other"), "b", {"events": 5})
    file = write_partials(tmp_path / "p", VIEW, [simple_event(f"/{i}", 0) for i in range(pages)])
    seen: list[tuple[int, int, int, int]] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                with store.snapshot() as snapshot:
                    first, second = snapshot.serving("traffic"), snapshot.serving("other")
                    assert first is not None
                    assert second is not None
                    events = [sum(row[1] for row in snapshot.rows(v, TOTAL)) for v in (first, second)]
                    seen.append((first.bases[0].applied_to, second.bases[0].applied_to, *events))
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for commit in range(15):
        store.apply(step(commit, commit + 1), {("traffic", 1): [file], ("other", 1): [file]})
    done.set()
    for reader in readers:
        reader.join()
    assert not failures
    assert len({row[0] for row in seen}) > 3, "readers ran beside the merges"
    assert [row for row in seen if row != (row[0], row[0], row[0] * pages, row[0] * pages)] == []
