"""The log of touched cells: written with each step for views that somebody follows, bounded, and gone with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.errors import FencedError
from headrace.store.duckdb import change_log as duckdb_log
from headrace.store.partial_columns import FROM, KEY_ID, PANE, TO
from headrace.store.selection import Selection
from headrace.store.step_changes import Follower, TouchedTicks
from headrace.store.store_contract import Store, StoreReader
from headrace.store.version import Version
from tests import wording
from tests.contracts.store.conftest import Place
from tests.contracts.store.layers import VIEW, build, end_beat, find, merge, serving, step
from tests.unit.store.partial_files import simple_event

MINUTE = 60_000


def log_of(store: Store, version: Version) -> TouchedTicks | None:
    with store.snapshot() as snapshot:
        return snapshot.log(version)


def ticks(store: Store, version: Version, after: int = 0) -> list[tuple[int, int]]:
    with store.snapshot() as snapshot:
        return snapshot.ticks(version, after)


def panes(store: Store, version: Version, after: int, upto: int) -> list[int]:
    with store.snapshot() as snapshot:
        return sorted(snapshot.touched(version, after, upto)[PANE].to_pylist())


def followers(store: StoreReader) -> list[Follower]:
    with store.snapshot() as snapshot:
        return snapshot.followers()


def test_steps_are_logged_from_when_somebody_follows(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "a", {"events": 5})
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    assert log_of(store, version) is None
    store.follow("traffic", "someone")
    store.follow("traffic", "someone")
    merge(store, tmp_path, version, [simple_event("/a", 0), simple_event("/a", 5), simple_event(None, MINUTE)])
    store.apply(step(2, 4), {version.id: []})
    merge(store, tmp_path, version, [simple_event("/a", 2 * MINUTE)])
    assert log_of(store, version) == TouchedTicks(1, 5)
    assert ticks(store, version) == [(2, 2), (5, 1)]
    assert ticks(store, version, 2) == [(5, 1)]
    assert panes(store, version, 0, 4) == [0, MINUTE]
    assert panes(store, version, 2, 5) == [2 * MINUTE]
    assert followers(store) == [Follower("traffic", "someone")]


def test_another_view_is_not_logged(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "a", {"events": 5})
    store.follow("other", "someone")
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    assert log_of(store, version) is None
    assert ticks(store, version) == []


def test_the_last_one_to_leave_takes_the_log_along(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "a", {"events": 5})
    for name in ("one", "two"):
        store.follow("traffic", name)
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    store.unfollow("traffic", "one")
    store.unfollow("traffic", "nobody")
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    assert log_of(store, version) == TouchedTicks(0, 2)
    store.unfollow("traffic", "two")
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    assert log_of(store, version) is None
    store.follow("traffic", "three")
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    assert log_of(store, version) == TouchedTicks(3, 4)


def test_followers_and_the_log_survive_a_restart(place: Place, tmp_path: Path) -> None:
    store = place.open(1)
    version = store.register(VIEW, "a", {"events": 5})
    store.follow("traffic", "one")
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    store.advance("traffic", "one", 1, 1, "its own word")
    store.close()
    store = place.open(2)
    assert followers(store) == [Follower("traffic", "one", 1, 1, "its own word")]
    merge(store, tmp_path, version, [simple_event("/a", MINUTE)])
    assert log_of(store, version) == TouchedTicks(0, 2)
    assert panes(store, version, 1, 2) == [MINUTE]
    store.close()
    reading = place.open_to_read()
    assert followers(reading) == [Follower("traffic", "one", 1, 1, "its own word")]
    reading.close()


def test_a_beat_touches_nothing(store: Store, tmp_path: Path) -> None:
    version = build(store, tmp_path, [[simple_event("/a", 0)]])
    store.promote("traffic", 1)
    store.follow("traffic", "one")
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    begun = store.begin_beat("traffic", 1, "events")
    merge(store, tmp_path, version, [simple_event("/b", 0)])
    end_beat(store, tmp_path, begun, [simple_event("/a", 0)], merged=True)
    assert log_of(store, version) == TouchedTicks(1, 3)
    assert ticks(store, version) == [(2, 1), (3, 1)]


def test_a_log_with_a_gap_begins_anew(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "a", {"events": 5})
    store.follow("traffic", "one")
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    build(store, tmp_path, [[simple_event("/a", 0)]], fingerprint="b")
    store.promote("traffic", 2)
    assert log_of(store, serving(store)) is None
    merge(store, tmp_path, serving(store), [simple_event("/a", 0)])
    store.revive("traffic", 1)
    merge(store, tmp_path, version, [simple_event("/a", 0)])  # it catches up while it does not serve
    store.promote("traffic", 1)
    merge(store, tmp_path, version, [simple_event("/a", MINUTE)])
    assert log_of(store, version) == TouchedTicks(2, 3)
    assert panes(store, version, 0, 3) == [MINUTE]


def test_the_log_of_a_version_goes_with_it(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "a", {"events": 5})
    store.follow("traffic", "one")
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    store.drop("traffic")
    assert log_of(store, version) is None
    assert ticks(store, version) == []


def test_a_writer_that_was_taken_over_changes_no_follower(place: Place) -> None:
    store = place.open(1)
    store.register(VIEW, "a", {"events": 5})
    store.follow("traffic", "one")
    place.take_over(9)
    for change in (
        lambda: store.follow("traffic", "two"),
        lambda: store.advance("traffic", "one", 1, 1),
        lambda: store.unfollow("traffic", "one"),
    ):
        with wording.raises(FencedError):
            change()
    assert followers(store) == [Follower("traffic", "one")]
    store.close()


def test_cells_that_are_touched_again_are_known_by_key(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "a", {"events": 5})
    store.follow("traffic", "one")
    merge(store, tmp_path, version, [simple_event("/a", 0), simple_event("/b", 0)])
    merge(store, tmp_path, version, [simple_event("/a", MINUTE), simple_event("/c", MINUTE)])
    with store.snapshot() as snapshot:
        (id,) = set(snapshot.touched(version, 0, 1)[KEY_ID].to_pylist()) & set(
            snapshot.touched(version, 1, 2)[KEY_ID].to_pylist()
        )
        again = snapshot.touched_again(version, 0, 1)
        assert (again[KEY_ID].to_pylist(), again[PANE].to_pylist()) == ([id], [MINUTE])
        assert not len(snapshot.touched_again(version, 0, 2))


def test_changed_rows_are_read_by_key_and_span(store: Store, tmp_path: Path) -> None:
    version = build(store, tmp_path, [[simple_event(key, at * MINUTE) for key in ("/a", "/b") for at in range(4)]])
    store.promote("traffic", 1)
    store.follow("traffic", "one")
    merge(store, tmp_path, version, [simple_event("/a", MINUTE), simple_event("/a", 3 * MINUTE)])
    with store.snapshot() as snapshot:
        touched = snapshot.touched(version, 1, 2)
        (id,) = set(touched[KEY_ID].to_pylist())
        spans = touched.slice(0, 1).select([KEY_ID])
        import pyarrow as pa

        spans = spans.append_column(FROM, pa.array([MINUTE])).append_column(TO, pa.array([3 * MINUTE]))
        selection = Selection(by=("k0",), bucket_ms=MINUTE, panes=(0, 4 * MINUTE))
        rows = snapshot.changed(find(store, version), selection, spans)
        assert [row[:5] for row in rows] == [(MINUTE, id, "/a", 2, 0), (2 * MINUTE, id, "/a", 1, 0)]


# Bounds


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(duckdb_log, "MOST_OF_STEP", 3)
    monkeypatch.setattr(duckdb_log, "MOST_CELLS", 5)
    monkeypatch.setattr(duckdb_log, "TRIM_EVERY_CELLS", 1)
    return


@pytest.mark.usefixtures("small")
def test_a_step_that_touches_too_much_is_not_logged(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "a", {"events": 5})
    store.follow("traffic", "one")
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    merge(store, tmp_path, version, [simple_event("/a", at * MINUTE) for at in range(4)])
    assert log_of(store, version) == TouchedTicks(2, 2)
    assert ticks(store, version) == []


@pytest.mark.usefixtures("small")
def test_the_log_keeps_the_newest_cells(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "a", {"events": 5})
    store.follow("traffic", "one")
    store.advance("traffic", "one", 1, 0)
    for _ in range(4):
        merge(store, tmp_path, version, [simple_event("/a", 0), simple_event("/b", 0)])
    assert log_of(store, version) == TouchedTicks(2, 4)
    assert ticks(store, version) == [(3, 2), (4, 2)]


def test_what_all_followers_have_passed_goes_after_a_time(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_log, "TRIM_EVERY_CELLS", 1)
    monkeypatch.setattr(duckdb_log, "KEPT_US", 0)  # the time of a step is its number here
    version = store.register(VIEW, "a", {"events": 5})
    store.follow("traffic", "one")
    store.follow("traffic", "new")  # it has no cursor: it will read all rows
    store.advance("traffic", "one", 1, 2)
    for _ in range(5):
        merge(store, tmp_path, version, [simple_event("/a", 0)])
    assert log_of(store, version) == TouchedTicks(2, 5)
    monkeypatch.setattr(duckdb_log, "OLDEST_US", 1)  # what one has not passed by then
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    assert log_of(store, version) == TouchedTicks(4, 6)
