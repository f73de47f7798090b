"""DuckStore: steps are whole or not at all, versions are swapped at once, and its failures say what to do."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import ConflictError, CorruptionError, FencedError, WorkspaceError
from headrace.store.base import BUCKET, EVENTS, Selection, Step, Version
from headrace.store.duckdb.store import DuckStore
from headrace.transport.position import Position
from headrace.types import Type
from tests.unit.store.partial_files import TYPES, make_view, simple_event, write_partials

VIEW = make_view("traffic")
ALL = Selection(by=("k0",), bucket_ms=60_000)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckStore]:
    opened = DuckStore.open(tmp_path / "store", fence=7)
    yield opened
    opened.close()


def step(start: int, end: int) -> Step:
    return Step("events", start, end, position=Position.at(end * 10), newest_us=end * 60_000_000, at_us=end)


def serving(store: DuckStore, view: str = "traffic") -> Version:
    with store.snapshot() as snapshot:
        version = snapshot.serving(view)
    assert version is not None
    return version


def counted(store: DuckStore, version: Version) -> int:
    with store.snapshot() as snapshot:
        return sum(snapshot.fold(version, ALL)[EVENTS].to_pylist())


def test_the_first_version_serves_and_a_second_waits(store: DuckStore) -> None:
    first, second = store.register(VIEW, "a", 5), store.register(VIEW, "b", 6)
    with store.snapshot() as snapshot:
        assert snapshot.versions() == [first, second]
        assert snapshot.serving("traffic") == first
    assert (first.serving, first.applied_to, first.newest_us, second.serving) == (True, 0, None, False)


def test_promote_swaps_and_the_older_one_is_frozen(store: DuckStore, tmp_path: Path) -> None:
    _, second = store.register(VIEW, "a", 5), store.register(VIEW, "b", 6)
    file = write_partials(tmp_path / "p", VIEW, [simple_event("/a", 0)])
    store.apply(step(0, 1), {("traffic", 1): [], ("traffic", 2): [file]})
    store.promote("traffic", 2)
    with store.snapshot() as snapshot:
        assert [(v.number, v.state) for v in snapshot.versions()] == [(1, "retired"), (2, "serving")]
    assert counted(store, second) == 1


def test_a_step_without_files_still_moves(store: DuckStore) -> None:
    store.register(VIEW, "a", 5)
    store.apply(step(0, 3), {("traffic", 1): []})
    version = serving(store)
    assert (version.applied_to, version.position) == (3, Position.at(30))
    assert (version.newest_us, version.applied_at_us) == (180_000_000, 3)


def test_a_step_that_does_not_fit_changes_nothing(store: DuckStore, tmp_path: Path) -> None:
    store.register(VIEW, "a", 5)
    other = make_view("other")
    store.register(other, "b", 5)
    store.apply(step(0, 1), {("other", 1): []})
    file = write_partials(tmp_path / "p", VIEW, [simple_event("/a", 0)])
    with pytest.raises(FencedError, match=r"view 'other' version 1: commits \[0, 1\).*found commit 1 and fence 7"):
        store.apply(step(0, 1), {("traffic", 1): [file], ("other", 1): [file]})
    assert serving(store).applied_to == 0
    assert counted(store, serving(store)) == 0


def test_an_unreadable_file_changes_nothing(store: DuckStore, tmp_path: Path) -> None:
    store.register(VIEW, "a", 5)
    (tmp_path / "bad.parquet").write_bytes(b"not parquet")
    with pytest.raises(Exception, match=r"bad\.parquet"):
        store.apply(step(0, 1), {("traffic", 1): [str(tmp_path / "bad.parquet")]})
    assert serving(store).applied_to == 0
    store.apply(step(0, 1), {("traffic", 1): []})  # the store goes on


def test_a_step_of_an_unknown_version_is_refused(store: DuckStore) -> None:
    with pytest.raises(ConflictError, match="version 1 has changed meanwhile; found no such version"):
        store.apply(step(0, 1), {("traffic", 1): []})
    with pytest.raises(ConflictError, match="version 1 has changed meanwhile"):
        store.stall("traffic", 1, "boom")


def test_a_stall_is_recorded_and_lifted(store: DuckStore) -> None:
    store.register(VIEW, "a", 5)
    store.stall("traffic", 1, "boom")
    assert serving(store).stalled == "boom"
    store.stall("traffic", 1, None)
    assert serving(store).stalled is None


def test_drop_forgets_all_versions_and_a_new_view_may_take_the_name(store: DuckStore, tmp_path: Path) -> None:
    store.register(VIEW, "a", 5)
    store.register(VIEW, "b", 5)
    store.drop("traffic")
    with store.snapshot() as snapshot:
        assert snapshot.versions() == []
    assert counted(store, store.register(VIEW, "c", 5)) == 0


def test_views_whose_names_differ_in_case_or_signs_have_their_own_tables(store: DuckStore, tmp_path: Path) -> None:
    names = ["traffic", "Traffic", 'a"b', "a b", "a-b", "x" * 200, "; DROP TABLE versions"]
    for i, name in enumerate(names):
        view = replace(VIEW, name=name)
        store.register(view, "f", 0)
        file = write_partials(tmp_path / f"{i}.parquet", view, [simple_event("k", 0)] * (i + 1))
        store.apply(step(0, 1), {(name, 1): [file]})
    assert [counted(store, serving(store, name)) for name in names] == list(range(1, len(names) + 1))


def test_what_was_merged_is_there_after_reopening(store: DuckStore, tmp_path: Path) -> None:
    store.register(VIEW, "a", 5)
    file = write_partials(tmp_path / "p", VIEW, [simple_event("/a", 0), simple_event(None, 0)])
    store.apply(step(0, 1), {("traffic", 1): [file]})
    before = serving(store)
    store.close()
    for read_only in (True, False):
        again = DuckStore.open(tmp_path / "store", fence=8, read_only=read_only)
        assert serving(again) == before
        assert counted(again, before) == 2
        again.close()


def test_a_lower_fence_is_refused(store: DuckStore, tmp_path: Path) -> None:
    store.register(VIEW, "a", 5)
    store.close()
    with pytest.raises(FencedError, match="taken over by a later process; found fence 7; expected at most 6"):
        DuckStore.open(tmp_path / "store", fence=6)


def test_a_missing_store_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"store .*nothing does not exist.*headrace up"):
        DuckStore.open(tmp_path / "nothing", fence=1, read_only=True)


def test_a_corrupt_store_says_that_it_can_be_rebuilt(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"x" * 100_000)
    with pytest.raises(CorruptionError, match=r"store .* cannot be read.*sets the file aside.*again from the lake"):
        DuckStore.open(tmp_path / "store", fence=1)


HOLDER = """
import sys
from headrace.store.duckdb.store import DuckStore
store = DuckStore.open(sys.argv[1], fence=9)
print("open", flush=True)
sys.stdin.read()
store.close()
"""


@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_held_by_another_process_is_named(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "store"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(WorkspaceError, match=r"store .* is held by another process"):
            DuckStore.open(path, fence=1, read_only=read_only)
        assert holder.stdin is not None
        holder.stdin.close()
    DuckStore.open(path, fence=9, read_only=read_only).close()


def test_readers_never_see_half_a_merge(store: DuckStore, tmp_path: Path) -> None:
    pages = 50
    other = make_view("other")
    store.register(VIEW, "a", 5)
    store.register(other, "b", 5)
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
                    total = Selection(by=(), bucket_ms=None)
                    events = [sum(row[1] for row in snapshot.rows(v, total)) for v in (first, second)]
                    seen.append((first.applied_to, second.applied_to, *events))
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


@pytest.mark.parametrize("of", TYPES, ids=str)
def test_a_page_goes_on_behind_a_key_of_any_type_and_behind_null(store: DuckStore, tmp_path: Path, of: Type) -> None:
    view = make_view("traffic", keys=[of])
    store.register(view, "f", 0)
    value = simple_event(None, 0).values[of.name]
    events = [simple_event(key, 0) for key in (None, value)]
    store.apply(step(0, 1), {("traffic", 1): [write_partials(tmp_path / "p.parquet", view, events)]})
    with store.snapshot() as snapshot:
        found, after = [], None
        while rows := snapshot.fold(
            serving(store), Selection(by=("k0",), bucket_ms=60_000, after=after, limit=1)
        ).to_pylist():
            found.append(rows[0]["k0"])
            after = (rows[0][BUCKET], rows[0]["k0"])
    assert found == [None, value]
