"""Batch tables and slices that are lost or damaged: named, never a wrong number, computed again from the lake."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.define.catalog import Catalog
from headrace.define.fingerprint import fingerprint
from headrace.define.model import Stream
from headrace.errors import CorruptionError
from headrace.lake.delta_table import LakeState
from headrace.maintain.build_slices import Slices, slices_folder
from headrace.server.leftovers import clean
from headrace.server.reconcile import reconcile_views
from headrace.store.duckdb.batch_table import make_batch_table
from headrace.store.duckdb.database import DAMAGED
from headrace.store.open_store import open_store
from headrace.store.store_contract import Store
from headrace.store.version import Point
from headrace.tools.doctor.data_checks import check_batch_layer
from headrace.transport.position import Position
from headrace.workspace.settings import Settings, Workspace
from tests.contracts.store.layers import counted, serving
from tests.unit.store.partial_files import make_view, simple_event, write_partials

VIEW = make_view("traffic")
ROWS = 3_000
LAKE = LakeState(3, Position.at(30), None)
CATALOG = Catalog({VIEW.streams[0]: Stream(VIEW.streams[0], ())}, {VIEW.name: VIEW})


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, Settings())


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a workspace whose view answers from one batch table; tests damage copies of it."""
    workspace = Workspace(tmp_path_factory.mktemp("filled"), Settings())
    store = open_store(workspace, 1)
    version = store.register(VIEW, fingerprint(VIEW), {"events": 5}, {"events": Point(3, Position.at(30), None)})
    file = write_partials(workspace.folder / "p", VIEW, [simple_event(f"/{i}", 0) for i in range(ROWS)])
    table = store.make_batch_table(version, (0, 3), [Path(file)])
    store.build("traffic", 1, "events", 3)
    store.fill("traffic", 1, "events", table)
    store.promote("traffic", 1)
    assert counted(store, serving(store)) == ROWS
    store.close()
    return workspace.data


@pytest.fixture
def path(workspace: Workspace, filled: Path) -> Path:
    """The batch table from which the workspace answers."""
    shutil.copytree(filled, workspace.data)
    (table,) = (workspace.data / "batch").iterdir()
    return table


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def garble(path: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


def put_another(path: Path) -> None:
    """A sound file that is not the one."""
    file = write_partials(path.parent / "q", VIEW, [simple_event("/other", 0)])
    path.unlink()
    make_batch_table(VIEW, path, partials=[Path(file)], earlier=[])
    (path.parent / "q").unlink()


def states(store: Store) -> list[tuple[int, str]]:
    with store.snapshot() as snapshot:
        return [(version.number, version.state) for version in snapshot.versions()]


@pytest.mark.parametrize("damage", [Path.unlink, half, garble, put_another])
def test_a_damaged_batch_table_is_named_and_built_anew(
    workspace: Workspace, path: Path, damage: Callable[[Path], None]
) -> None:
    damage(path)
    (said,) = check_batch_layer(workspace, deep=False)
    assert (said.level, "built again from the lake" in str(said.fix)) == ("error", True)
    assert str(path) in said.said
    store = open_store(workspace, 2)
    assert states(store) == []
    reconcile_views(store, CATALOG, {VIEW.streams[0]: LAKE})
    assert states(store) == [(2, "registered")]
    clean(store, workspace.builds)
    assert not any(path.parent.iterdir())
    store.close()


def reads_right(store: Store) -> str | None:
    """The right number, or why there is none."""
    try:
        assert counted(store, serving(store)) == ROWS
    except CorruptionError as error:
        return str(error)
    return None


def test_a_bit_flipped_anywhere_is_never_a_wrong_number(workspace: Workspace, path: Path) -> None:
    chance = random.Random(3)
    whole = path.read_bytes()
    noticed = 0
    for fence in range(2, 12):
        raw = bytearray(whole)
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        path.write_bytes(raw)
        keep = shutil.copytree(workspace.data, workspace.folder / "kept")
        store = open_store(workspace, fence)
        if states(store):  # a glance does not see it
            failure = reads_right(store)
            if failure:
                assert str(path) in failure
                assert path.with_name(path.name + DAMAGED).exists()
                noticed += 1
                store.close()
                store = open_store(workspace, fence)
                assert states(store) == []
        else:
            noticed += 1
        store.close()
        shutil.rmtree(workspace.data)
        keep.rename(workspace.data)
    assert noticed > 0
    raw = bytearray(whole)
    for at in range(12288, len(raw), 1000):
        raw[at] ^= 16
    path.write_bytes(raw)
    assert [found.level for found in check_batch_layer(workspace, deep=True)] == ["error"]


def test_a_retired_version_that_is_damaged_takes_nobody_with_it(workspace: Workspace, path: Path) -> None:
    store = open_store(workspace, 2)
    store.register(VIEW, fingerprint(VIEW), {"events": 5}, {"events": Point(3, Position.at(30), None)})
    shutil.copy(path, path.with_name("u.duckdb"))
    store.build("traffic", 2, "events", 3)
    store.fill("traffic", 2, "events", replace(serving(store).batch[0], file="u.duckdb"))
    store.promote("traffic", 2)
    store.close()
    path.unlink()
    store = open_store(workspace, 3)
    assert states(store) == [(2, "serving")]
    assert counted(store, serving(store)) == ROWS
    store.close()
    path.with_name("u.duckdb").unlink()
    store = open_store(workspace, 4)
    reconcile_views(store, CATALOG, {VIEW.streams[0]: LAKE})
    assert states(store) == [(3, "registered")]
    store.close()


def test_slices_of_another_definition_are_not_taken_for_ones_own(workspace: Workspace) -> None:
    """Numbers begin anew with a store that was lost: a slice is known by the definition that it was computed by."""
    edited = replace(VIEW, columns=VIEW.columns[:1])
    store = open_store(workspace, 1)
    first = store.register(VIEW, fingerprint(VIEW), {"events": 5}, {"events": Point(3, Position.at(30), None)})
    old = Slices(slices_folder(workspace.builds, first, "events"), 0, 3)
    with old.draft() as draft:
        old.add(0, 2, draft, [])
    store.close()
    shutil.rmtree(workspace.data / "store")
    store = open_store(workspace, 2)
    again = store.register(edited, fingerprint(edited), {"events": 5}, {"events": Point(3, Position.at(30), None)})
    assert (first.number, first.home) == (again.number, again.home)
    assert Slices(slices_folder(workspace.builds, again, "events"), 0, 3).done_to() == 0
    clean(store, workspace.builds)
    assert not any(workspace.builds.iterdir())
    store.close()


@pytest.mark.parametrize("damage", [Path.unlink, half, garble])
def test_a_damaged_slice_is_computed_again(
    workspace: Workspace, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    slices = Slices(workspace.builds / "traffic-1-abc", 0, 3)
    for start, end in ((0, 1), (1, 3)):
        file = write_partials(tmp_path / f"p{end}", VIEW, [simple_event("/a", 0)])
        with slices.draft() as draft:
            slices.add(start, end, draft, [shutil.copy(file, draft / "part.parquet")])
    broken = workspace.builds / "traffic-1-abc" / "0-1" / "part.parquet"
    damage(broken)
    (said,) = check_batch_layer(workspace, deep=False)
    assert str(broken.parent) in said.said
    assert slices.files() is None
    assert slices.done_to() == 0
    with suppress(FileNotFoundError):
        assert not any(broken.parent.iterdir())


def test_two_that_compute_the_same_slice_do_not_meet(tmp_path: Path) -> None:
    """A process that was paused, and the one that took over from it: each has a draft, and says what it holds."""
    slices = Slices(tmp_path / "slices", 0, 8)
    with slices.draft() as ours, slices.draft() as paused:
        files = paused / "a.parquet", ours / "b.parquet"
        for file in files:
            file.write_bytes(b"rows")
        slices.add(0, 5, paused, [str(files[0])])
        assert slices.done_to() == 5  # it woke, and what it had was whole
        slices.add(0, 8, ours, [str(files[1])])
    assert not (tmp_path / "slices" / "5-8").exists()
    assert slices.done_to() in (5, 8)
    assert [[file.name for file in path.glob("*.parquet")] for path in sorted((tmp_path / "slices").iterdir())] == [
        ["a.parquet"],
        ["b.parquet"],
    ]


def test_a_slice_that_fails_leaves_nothing(tmp_path: Path) -> None:
    slices = Slices(tmp_path / "slices", 0, 8)
    with pytest.raises(FileNotFoundError), slices.draft() as draft:
        slices.add(0, 8, draft, [str(draft / "lost.parquet")])  # it is not taken for a slice without events
    assert slices.done_to() == 0
    assert not any((tmp_path / "slices").iterdir())
