"""The life of a version: registered, built, ready, serving, retired, gone; and who may write."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from headrace.errors import ConflictError, FencedError
from headrace.store.store_contract import Store
from headrace.types import INT, STRING
from tests import wording
from tests.contracts.store.conftest import Place
from tests.contracts.store.layers import (
    VIEW,
    build,
    counted,
    find,
    merge,
    point,
    serving,
    states,
    step,
    versions,
    write,
)
from tests.unit.store.partial_files import make_view, simple_event, write_partials

OTHER = make_view("traffic", keys=(STRING, INT))


def replaced(store: Store) -> dict[int, int | None]:
    return {version.number: version.replaces for version in versions(store)}


def test_without_history_the_first_version_serves_and_a_second_waits(store: Store) -> None:
    first, second = store.register(VIEW, "a", {"events": 5}), store.register(VIEW, "b", {"events": 6})
    with store.snapshot() as snapshot:
        assert snapshot.versions() == [first, second]
        assert snapshot.serving("traffic") == first
        assert snapshot.serving("other") is None
    assert (first.serving, first.bases[0].applied_to, first.newest_us) == (True, 0, None)
    assert (second.state, second.fingerprint, second.patience_ms) == ("ready", "b", {"events": 6})


def test_a_version_with_history_is_built_before_it_serves(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "a", {"events": 5}, {"events": point(3)})
    assert (version.state, version.bases[0].horizon, version.bases[0].applied_to) == ("registered", 3, 3)
    assert not version.complete
    with wording.raises(ConflictError, 1):
        store.promote("traffic", 1)
    store.build("traffic", 1, "events", 1)
    store.build("traffic", 1, "events", 3)
    assert (find(store, version).state, find(store, version).bases[0].built_to) == ("building", 3)
    table = store.make_batch_table(version, (0, 3), [write(tmp_path, VIEW, [simple_event("/a", 0)])])
    assert (table.from_commit, table.to_commit, table.rows, table.events) == (0, 3, 1, 1)
    with wording.raises(ConflictError, 3):
        store.fill("traffic", 1, "events", replace(table, to_commit=2))
    store.fill("traffic", 1, "events", table)
    ready = find(store, version)
    assert (ready.state, ready.batch, ready.complete) == ("ready", (table,), True)
    store.promote("traffic", 1)
    assert serving(store).state == "serving"
    assert counted(store, serving(store)) == 1


def test_rows_of_a_version_that_is_not_built_cannot_be_read(store: Store) -> None:
    version = store.register(VIEW, "a", {"events": 5}, {"events": point(3)})
    with wording.raises(Exception, "traffic", 1):
        counted(store, version)


def test_promote_swaps_and_the_older_one_is_frozen(store: Store, tmp_path: Path) -> None:
    first, second = store.register(VIEW, "a", {"events": 5}), store.register(VIEW, "b", {"events": 6})
    file = write_partials(tmp_path / "p", VIEW, [simple_event("/a", 0)])
    store.apply(step(0, 1), {first.id: [], second.id: [file]})
    store.promote("traffic", 2)
    assert states(store) == [(1, "retired"), (2, "serving")]
    assert counted(store, second) == 1
    with wording.raises(ConflictError):
        store.apply(step(1, 2), {first.id: []})


def test_a_version_behind_the_one_that_serves_is_not_promoted(store: Store, tmp_path: Path) -> None:
    first = store.register(VIEW, "a", {"events": 5})
    store.register(VIEW, "b", {"events": 5})
    merge(store, tmp_path, first, [simple_event("/a", 0)])
    with wording.raises(ConflictError, 0, 1):
        store.promote("traffic", 2)
    assert states(store) == [(1, "serving"), (2, "ready")]


def test_a_newer_version_takes_the_place_of_one_that_does_not_serve_yet(store: Store) -> None:
    store.register(VIEW, "a", {"events": 5})
    store.register(VIEW, "b", {"events": 5}, {"events": point(3)})
    store.register(VIEW, "c", {"events": 5}, {"events": point(3)})
    assert states(store) == [(1, "serving"), (3, "registered")]


def test_a_free_edit_takes_the_rows_over(store: Store, tmp_path: Path) -> None:
    first = store.register(VIEW, "a", {"events": 5})
    merge(store, tmp_path, first, [simple_event("/a", 0)])
    narrower = replace(VIEW, columns=VIEW.columns[:2])
    adopted = store.adopt(narrower, "b", {"events": 9}, 1)
    assert states(store) == [(1, "retired"), (2, "serving")]
    assert (adopted.bases[0].applied_to, adopted.patience_ms, adopted.bases[0].patience_from) == (1, {"events": 9}, 1)
    assert counted(store, serving(store)) == 1
    merge(store, tmp_path, adopted, [simple_event("/b", 0)])
    assert counted(store, serving(store)) == 2
    with wording.raises(ConflictError):
        store.revive("traffic", 1)


def test_a_free_edit_of_a_build_goes_on_with_it(store: Store) -> None:
    store.register(VIEW, "a", {"events": 5})
    store.register(VIEW, "b", {"events": 5}, {"events": point(3)})
    store.build("traffic", 2, "events", 2)
    adopted = store.adopt(VIEW, "c", {"events": 5}, 2)
    assert states(store) == [(1, "serving"), (3, "building")]
    assert (adopted.bases[0].built_to, adopted.bases[0].horizon, adopted.replaces) == (2, 3, 1)
    store.adopt(VIEW, "d", {"events": 6}, 1)
    assert states(store) == [(1, "retired"), (4, "serving")], "an edit of what serves ends the build"


def test_a_retired_version_is_brought_on_again(store: Store, tmp_path: Path) -> None:
    first, second = store.register(VIEW, "a", {"events": 5}), store.register(VIEW, "b", {"events": 5})
    store.promote("traffic", 2)
    merge(store, tmp_path, second, [simple_event("/a", 0)])
    store.register(VIEW, "c", {"events": 5}, {"events": point(1)})
    store.stall("traffic", 1, "events", "boom", quarantined=True)
    store.revive("traffic", 1)
    assert states(store) == [(1, "ready"), (2, "serving")]
    assert (find(store, first).stalled, find(store, first).quarantined) == (None, False)
    merge(store, tmp_path, first, [simple_event("/a", 0)])
    store.promote("traffic", 1)
    assert states(store) == [(1, "serving"), (2, "retired")]


def test_forget_removes_a_version_that_does_not_serve(store: Store, tmp_path: Path) -> None:
    built = build(store, tmp_path, [[simple_event("/a", 0)]])
    store.promote("traffic", 1)
    with wording.raises(ConflictError):
        store.forget("traffic", 1)
    build(store, tmp_path, [[simple_event("/a", 0)]])
    store.promote("traffic", 2)
    store.forget("traffic", 1)
    assert states(store) == [(2, "serving")]
    assert store.faults_of(built), "its batch table is gone"
    assert counted(store, serving(store)) == 1


def test_drop_forgets_all_and_a_new_view_may_take_the_name(store: Store) -> None:
    store.register(VIEW, "a", {"events": 5})
    store.register(VIEW, "b", {"events": 5})
    store.drop("traffic")
    assert versions(store) == []
    again = store.register(VIEW, "c", {"events": 5})
    assert counted(store, again) == 0
    assert again.number == 3, "no number is used twice"


def test_a_stall_is_recorded_and_lifted(store: Store) -> None:
    store.register(VIEW, "a", {"events": 5})
    store.stall("traffic", 1, "events", "boom", quarantined=True)
    assert (serving(store).stalled, serving(store).quarantined) == ("boom", True)
    store.stall("traffic", 1, "events", None)
    assert (serving(store).stalled, serving(store).quarantined) == (None, False)


def test_a_version_that_is_gone_is_named(store: Store) -> None:
    for call in (
        lambda: store.stall("traffic", 1, "events", "boom"),
        lambda: store.build("traffic", 1, "events", 0),
        lambda: store.promote("traffic", 1),
        lambda: store.forget("traffic", 1),
        lambda: store.begin_beat("traffic", 1, "events"),
        lambda: store.apply(step(0, 1), {("traffic", 1): []}),
    ):
        with wording.raises(ConflictError, 1):
            call()


def test_views_whose_names_differ_in_case_or_signs_have_their_own_rows(store: Store, tmp_path: Path) -> None:
    names = ["traffic", "Traffic", 'a"b', "a b", "a-b", "x" * 200, "; DROP TABLE versions"]
    for i, name in enumerate(names):
        version = build(store, tmp_path, [[simple_event("k", 0)] * (i + 1)], replace(VIEW, name=name))
        store.promote(name, 1)
        merge(store, tmp_path, version, [simple_event("k", 0)])
    assert [counted(store, serving(store, name)) for name in names] == list(range(2, len(names) + 2))


# Which version each one replaced


def test_edits_builds_and_rollbacks_say_what_they_replaced(store: Store) -> None:
    store.register(VIEW, "one", {"events": 0})
    store.register(OTHER, "other", {"events": 0})
    assert replaced(store) == {1: None, 2: 1}, "what it will replace"
    store.promote("traffic", 2)
    store.register(VIEW, "again", {"events": 0})
    store.promote("traffic", 3)
    assert replaced(store) == {1: None, 2: 1, 3: 2}
    store.revive("traffic", 1)
    store.promote("traffic", 1)
    assert replaced(store) == {1: 3, 2: 1, 3: 2}, "the rollback to 1 replaced 3"
    store.adopt(VIEW, "one", {"events": 5}, 1)
    assert replaced(store)[4] == 1


def test_an_edit_of_a_version_that_does_not_serve_yet_replaces_what_serves(store: Store) -> None:
    store.register(VIEW, "one", {"events": 0})
    store.register(OTHER, "other", {"events": 0})
    store.adopt(OTHER, "other", {"events": 5}, 2)
    assert replaced(store) == {1: None, 3: 1}


# Who may write


def test_all_is_there_after_reopening(place: Place, tmp_path: Path) -> None:
    store = place.open(7)
    version = build(store, tmp_path, [[simple_event("/a", 0), simple_event(None, 0)]])
    store.promote("traffic", 1)
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    before = serving(store)
    store.close()
    for reopen in (place.open_to_read, partial(place.open, 8)):
        again = reopen()
        assert serving(again) == before
        assert counted(again, before) == 3
        again.close()


def test_a_lower_fence_is_refused(place: Place) -> None:
    store = place.open(7)
    store.register(VIEW, "a", {"events": 5})
    store.close()
    with wording.raises(FencedError, 7, 6):
        place.open(6)


def test_a_writer_that_was_taken_over_from_changes_nothing(place: Place, tmp_path: Path) -> None:
    older = place.open(7)
    version = older.register(VIEW, "a", {"events": 5})
    place.take_over(8)
    for call in (
        lambda: merge(older, tmp_path, version, [simple_event("/a", 0)]),
        lambda: older.stall("traffic", 1, "events", "boom"),
        lambda: older.register(VIEW, "b", {"events": 5}, {"events": point(1)}),
        lambda: older.drop("traffic"),
    ):
        with wording.raises(FencedError):
            call()
    older.close()
    newer = place.open(8)
    assert versions(newer) == [version]
    merge(newer, tmp_path, version, [simple_event("/a", 0)])
    assert counted(newer, serving(newer)) == 1
    newer.close()
