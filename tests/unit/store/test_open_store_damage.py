"""A store whose disk is full or whose file is lost or damaged: it goes on, or is computed anew from the lake."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from headrace.define.catalog import Catalog, parse
from headrace.define.fingerprint import fingerprint
from headrace.errors import CorruptionError, DiskFullError, NewerFormatError
from headrace.faults import VARIABLE
from headrace.lake.delta_table import LakeState
from headrace.server.leftovers import highest_fence
from headrace.server.reconcile import reconcile_views
from headrace.store.duckdb import database
from headrace.store.duckdb.duckdb_reader import open_file
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.open_store import open_store
from headrace.transport.position import Position
from headrace.workspace.settings import Settings, Workspace
from tests import wording
from tests.contracts.store.layers import VIEW, counted, serving, step
from tests.unit.store.partial_files import simple_event, write_partials

SOME = 2000  # rows of a step


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, Settings())


def fill_store(workspace: Workspace, commits: int = 3, fence: int = 1) -> Path:
    """A store with one view and some merges; its file."""
    store = open_store(workspace, fence)
    store.register(VIEW, "a", {"events": 5})
    file = write_partials(workspace.folder / "p", VIEW, [simple_event(f"/{i}", 0) for i in range(300)])
    for commit in range(commits):
        store.apply(step(commit, commit + 1), {("traffic", 1): [file]})
    store.close()
    (path,) = (workspace.data / "store").glob("views-*.duckdb")
    return path


@pytest.mark.parametrize("point", ["store.before_merge", "store.before_commit"])
def test_a_full_disk_merges_nothing_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    store = DuckStore.open(tmp_path / "store", fence=1)
    store.register(VIEW, "a", {"events": 5})
    file = write_partials(tmp_path / "p", VIEW, [simple_event("/a", 0)])
    monkeypatch.setenv(VARIABLE, f"{point}=ENOSPC")
    with pytest.raises(DiskFullError, match=f"views cannot be updated: the disk of '{tmp_path}/store' is full"):
        store.apply(step(0, 1), {("traffic", 1): [file]})
    assert (serving(store).bases[0].applied_to, counted(store, serving(store))) == (0, 0)
    monkeypatch.delenv(VARIABLE)
    store.apply(step(0, 1), {("traffic", 1): [file]})
    assert (serving(store).bases[0].applied_to, counted(store, serving(store))) == (1, 1)
    store.close()


@pytest.mark.parametrize("threshold", ["100KB", "64MB"])
def test_a_really_full_disk(
    small_disk: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threshold: str
) -> None:
    """With the low threshold a checkpoint fails, which makes the database invalid for its process; else its log."""
    monkeypatch.setattr(database, "open_database", partial(database.open_database, checkpoint_threshold=threshold))
    disk = small_disk(4 << 20)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(2 << 20))
    store = DuckStore.open(disk / "store", fence=1)
    view = replace(VIEW, columns=VIEW.columns[:2])
    store.register(view, "a", {"events": 5})
    applied = 0
    full = None
    while full is None:
        events = [simple_event(f"/{applied}-{i}", 0) for i in range(SOME)]
        file = write_partials(tmp_path / f"{applied}", view, events)
        try:
            store.apply(step(applied, applied + 1), {("traffic", 1): [file]})
            applied += 1
        except DiskFullError as error:
            full = error
    assert applied
    wording.check(full, f"{disk}/store")
    with suppress(DiskFullError):  # answers go on, unless the file cannot even be opened without room
        assert counted(store, serving(store)) == applied * SOME
    with suppress(DiskFullError):
        store.apply(step(applied, applied + 1), {("traffic", 1): [file]})
    ballast.unlink()
    at = serving(store).bases[0].applied_to
    assert counted(store, serving(store)) == at * SOME
    if at == applied:
        store.apply(step(applied, applied + 1), {("traffic", 1): [file]})
    assert counted(store, serving(store)) == (applied + 1) * SOME
    store.close()
    again = DuckStore.open(disk / "store", fence=2)
    assert counted(again, serving(again)) == (applied + 1) * SOME
    again.close()


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def garble(path: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


def flip_start(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[4096 + 20] ^= 255
    raw[8192 + 20] ^= 255
    path.write_bytes(raw)


@pytest.mark.parametrize("damage", [half, garble, flip_start])
def test_a_damaged_store_is_set_aside_and_begun_anew(workspace: Workspace, damage: Callable[[Path], None]) -> None:
    path = fill_store(workspace)
    damage(path)
    with wording.raises(CorruptionError):
        DuckStore.open(path, 2)
    store = open_store(workspace, 2)
    with store.snapshot() as snapshot:
        assert snapshot.versions() == []
    store.close()
    files = sorted(p.name for p in path.parent.iterdir() if p.is_file())
    assert files == [f"set-aside-{path.name}", "views-00000002.duckdb"]


def test_damage_that_a_reader_meets_is_named_and_remembered(workspace: Workspace) -> None:
    path = fill_store(workspace, commits=10)
    raw = bytearray(path.read_bytes())
    for at in range(12288 + 100, len(raw), 1000):
        raw[at] ^= 16
    path.write_bytes(raw)
    with suppress(CorruptionError):
        store = DuckStore.open(path, 2)
        with pytest.raises(CorruptionError, match=r"cannot be read.*again from the lake"):
            counted(store, serving(store))
        store.close()
        assert path.with_name(path.name + ".damaged").exists()
    again = open_store(workspace, 3)
    with again.snapshot() as snapshot:
        assert snapshot.versions() == []
    again.close()


def test_a_lost_store_is_begun_anew(workspace: Workspace) -> None:
    fill_store(workspace).unlink()
    store = open_store(workspace, 2)
    with store.snapshot() as snapshot:
        assert snapshot.versions() == []
    store.close()


CRASH = """
import os, sys
from headrace.store.duckdb.duckdb_store import DuckStore
from tests.contracts.store.layers import VIEW, step
store = DuckStore.open(sys.argv[1], fence=1)
store.register(VIEW, "a", {"events": 5})
for commit in range(5):
    store.apply(step(commit, commit + 1), {("traffic", 1): [sys.argv[2]]})
os._exit(0)
"""


def test_a_lost_or_damaged_write_ahead_log_costs_no_wrong_number(
    workspace: Workspace, run_python: Callable[..., None]
) -> None:
    file = write_partials(workspace.folder / "p", VIEW, [simple_event(f"/{i}", 0) for i in range(300)])
    path = workspace.data / "store" / "views-00000001.duckdb"
    path.parent.mkdir(parents=True)
    run_python(CRASH, str(path), file)  # as if killed: all is in the log
    log = path.with_name(path.name + ".wal")
    assert log.stat().st_size > 10_000
    damages: tuple[Callable[[Path], None], ...] = (Path.unlink, half, garble)
    for damage in damages:
        other = Workspace(workspace.folder / damage.__name__, Settings())
        shutil.copytree(workspace.data, other.data)
        damage(other.data / "store" / log.name)
        store = open_store(other, 2)
        with store.snapshot() as snapshot:
            versions = snapshot.versions()
        for version in versions:  # what is there is a whole number of steps: the rest is merged again
            assert counted(store, version) == version.bases[0].applied_to * 300
        store.close()


NEWER = """
import duckdb, os, sys
connection = duckdb.connect(sys.argv[1])
connection.execute("UPDATE store_format SET version = 99")
os._exit(0)  # as if killed: the number is in the write-ahead log
"""


def content(path: Path) -> dict[str, bytes]:
    """Every file of a store."""
    return {part.name: part.read_bytes() for part in sorted(path.parent.glob(f"{path.name}*"))}


def test_a_store_of_a_newer_format_is_refused_and_left_alone(
    workspace: Workspace, run_python: Callable[..., None]
) -> None:
    path = fill_store(workspace)
    run_python(NEWER, str(path))
    before = content(path)
    assert len(before) == 2
    for opened in (open_file, partial(DuckStore.open, fence=5)):
        with wording.raises(NewerFormatError, 99):
            opened(path)
    with wording.raises(NewerFormatError, path, database.FORMAT):
        open_store(workspace, 5)
    assert content(path) == before
    assert [left.name for left in path.parent.iterdir() if left.is_file() and left.name not in before] == []


def test_a_store_of_a_newer_duckdb_is_refused_and_left_alone(workspace: Workspace) -> None:
    path = fill_store(workspace)
    raw = bytearray(path.read_bytes())
    raw[12:20] = struct.pack("<Q", 9999)  # the storage version in DuckDB's header, whose checksum comes first
    checksum = 5381
    for (word,) in struct.iter_unpack("<Q", raw[8:4096]):
        checksum ^= word * 0xBF58476D1CE4E5B9 % (1 << 64)
    raw[:8] = struct.pack("<Q", checksum)
    path.write_bytes(raw)
    with wording.raises(NewerFormatError, 9999):
        open_store(workspace, 5)
    assert path.read_bytes() == raw


DEFINITIONS = parse("CREATE STREAM s (id BIGINT); CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM s")


def reconciled(store: DuckStore, lake: LakeState | None) -> tuple[str, int]:
    catalog = Catalog(DEFINITIONS.streams, DEFINITIONS.views)
    reconcile_views(store, catalog, {"s": lake} if lake else {})
    with store.snapshot() as snapshot:
        (version,) = snapshot.versions()
    return version.state, version.bases[0].applied_to


def test_a_view_that_is_ahead_of_its_lake_is_computed_anew(workspace: Workspace) -> None:
    store = open_store(workspace, 1)
    view = DEFINITIONS.views["n"]
    assert reconciled(store, LakeState(0, Position.at(0), None)) == ("serving", 0)
    assert serving(store, "n").fingerprint == fingerprint(view)
    store.apply(replace(step(0, 5), stream=view.streams[0]), {("n", 1): []})
    assert reconciled(store, LakeState(5, Position.at(50), None)) == ("serving", 5)
    assert reconciled(store, LakeState(9, Position.at(90), None)) == ("serving", 5)
    assert reconciled(store, None) == ("serving", 5)  # a lake that cannot be read tells nothing
    assert reconciled(store, LakeState(4, Position.at(40), None)) == ("registered", 4)
    store.close()


def test_the_highest_fence_is_known_without_the_lease(workspace: Workspace) -> None:
    assert highest_fence(workspace.data) == 0
    fill_store(workspace, fence=3)
    assert highest_fence(workspace.data) == 3
    segment = workspace.journal("s") / f"{0:020d}-{7:08d}.seg"
    segment.parent.mkdir(parents=True)
    segment.touch()
    assert highest_fence(workspace.data) == 7
