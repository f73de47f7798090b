"""The batch layer: batch tables, the audit that compares them with the speed layer's rows, and the horizon's move."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.aggregate import REGISTRY
from headrace.define.model import Column, View
from headrace.errors import ConflictError, CorruptionError, UnavailableError
from headrace.store.partial_columns import CORRECTIONS, EVENTS
from headrace.store.store_contract import Comparison, Drift, Store
from headrace.store.version import BatchTable, Version
from tests import wording
from tests.contracts.store.layers import (
    VIEW,
    audit,
    build,
    counted,
    end_beat,
    find,
    merge,
    point,
    serving,
    states,
    versions,
    write,
)
from tests.unit.store.partial_files import Event, make_view, simple_event

COUNTS = replace(VIEW, columns=(Column("n", REGISTRY["count"]()),))
MANY = 12_000  # rows: more than a store works on beside its readers


def events_of(count: int = 60) -> list[Event]:
    return [simple_event(f"/{i % 4}" if i % 4 else None, i % 3 * 60_000, i) for i in range(count)]


def begin(store: Store, folder: Path, events: Sequence[Event], view: View = VIEW) -> Version:
    """A version with these events in two commits of the speed layer, and a beat over them begun."""
    version = store.register(view, "a", {"events": 5})
    for part in (events[::2], events[1::2]):
        merge(store, folder, version, part)
    return store.begin_beat(view.name, version.number, "events")


def compare(store: Store, folder: Path, begun: Version, batch: Sequence[Event], files: int = 3) -> Comparison:
    paths = [write(folder, begun.view, batch[i::files]) for i in range(files)]
    return store.compare(begun, "events", paths, folder / "evidence.parquet")


def drift_of(store: Store, folder: Path, batch: Sequence[Event], speed: Sequence[Event]) -> dict[str, Drift]:
    comparison = compare(store, folder, begin(store, folder, speed), batch)
    return {drift.column: drift for drift in comparison.drift}


# Batch tables


def test_nothing_makes_an_empty_table(store: Store) -> None:
    version = store.register(VIEW, "a", {"events": 5}, {"events": point(3)})
    store.build("traffic", 1, "events", 3)
    table = store.make_batch_table(version, (0, 3), [])
    assert (table.rows, table.events) == (0, 0)
    store.fill("traffic", 1, "events", table)
    store.promote("traffic", 1)
    assert counted(store, serving(store)) == 0
    assert store.faults_of(serving(store)) == []


def test_a_broken_file_of_partials_is_named(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "a", {"events": 5}, {"events": point(3)})
    good, bad = write(tmp_path, VIEW, events_of(5)), tmp_path / "it's bad.parquet"
    bad.write_bytes(good.read_bytes()[:-100])
    with pytest.raises(CorruptionError, match=r"view 'traffic': batch table .* cannot be made: file .*bad"):
        store.make_batch_table(version, (0, 3), [good, bad])
    assert states(store) == [(1, "registered")]


def with_tables(version: Version, *tables: BatchTable) -> Version:
    return replace(version, bases=(replace(version.bases[0], batch=tables),))


def test_a_lost_batch_table_is_told_and_its_version_discarded(store: Store, tmp_path: Path) -> None:
    built = build(store, tmp_path, [events_of(5)])
    store.promote("traffic", 1)
    assert store.faults_of(built) == []
    lost = with_tables(built, replace(built.batch[0], file="lost"))
    (fault,) = store.faults_of(lost)
    assert "lost" in fault
    other = with_tables(built, replace(built.batch[0], events=6))
    assert len(store.faults_of(other)) == 1, "a table that is not the one"
    store.discard("traffic", 1)
    assert versions(store) == [], "nobody answers for its view"


def test_a_table_that_no_version_has_is_cleaned_away(store: Store, tmp_path: Path) -> None:
    built = build(store, tmp_path, [events_of(5)])
    unused = store.make_batch_table(built, (0, 1), [write(tmp_path, VIEW, events_of(3))])
    assert store.faults_of(with_tables(built, unused)) == []
    store.clean()
    assert store.faults_of(built) == []
    assert len(store.faults_of(with_tables(built, unused))) == 1


def test_much_work_is_done_alike_and_can_be_stopped(store: Store, tmp_path: Path) -> None:
    events = [Event((f"/{i}",), 0, {}) for i in range(MANY)]
    file = write(tmp_path, COUNTS, events)
    version = store.register(COUNTS, "a", {"events": 5})
    merge(store, tmp_path, version, events)
    begun = store.begin_beat("traffic", 1, "events")
    with wording.raises(UnavailableError):
        store.compare(begun, "events", [file], tmp_path / "evidence", stopping=lambda: True)
    assert store.compare(begun, "events", [file], tmp_path / "evidence") == Comparison(MANY, MANY, ())
    with pytest.raises(UnavailableError, match="cannot be made; found the server is stopping; nothing was changed"):
        store.make_batch_table(begun, (0, 1), [file], stopping=lambda: True)
    store.end_beat(begun, [store.make_batch_table(begun, (0, 1), [file])], audit(begun))
    assert counted(store, serving(store)) == MANY


# The audit


def test_other_splits_and_orders_of_the_same_events_agree(store: Store, tmp_path: Path) -> None:
    rnd = random.Random(5)
    events = [
        Event(("k",), 0, {**simple_event("k", 0, n).values, "DOUBLE": rnd.uniform(-1e6, 1e6), "STRING": f"s{n}"})
        for n in range(900)
    ]
    begun = begin(store, tmp_path, events)
    assert compare(store, tmp_path, begun, rnd.sample(events, len(events))) == Comparison(1, 900, ())
    assert not (tmp_path / "evidence.parquet").exists()


def test_a_value_that_differs_is_shown_and_the_speed_rows_are_kept(store: Store, tmp_path: Path) -> None:
    events = events_of(6)
    drift = drift_of(store, tmp_path, events, [*events[:5], simple_event("/1", 120_000, 50)])
    assert drift["max_int"] == Drift(
        "max_int", 1, "k0 '/1', pane 1970-01-01T00:02:00Z: 5 by the batch layer, 50 by the speed layer"
    )
    assert "count_all" not in drift
    assert "events" not in drift
    assert sum(pq.read_table(tmp_path / "evidence.parquet")[EVENTS].to_pylist()) == 6


@pytest.mark.parametrize("lacking", ["batch", "speed"])
def test_a_row_that_one_layer_lacks_is_found(store: Store, tmp_path: Path, lacking: str) -> None:
    events = events_of(12)
    more = [*events, simple_event("new", 0, 7), simple_event("new", 0, 8)]
    batch, speed = (events, more) if lacking == "batch" else (more, events)
    comparison = compare(store, tmp_path, begin(store, tmp_path, speed), batch)
    drift = {each.column: each for each in comparison.drift}
    assert comparison.rows == 13
    mine, theirs = (0, 2) if lacking == "batch" else (2, 0)
    example = f"k0 'new', pane 1970-01-01T00:00:00Z: {mine} by the batch layer, {theirs} by the speed layer"
    assert drift["events"] == Drift("events", 1, example)
    assert drift["count_all"].example == example
    assert ("NULL by the batch layer" in drift["min_int"].example) is (lacking == "batch")


def test_one_event_twice_is_found_in_its_rows_only(store: Store, tmp_path: Path) -> None:
    events = events_of()
    drift = drift_of(store, tmp_path, events, [*events, events[7]])
    assert drift["events"].rows == drift["count_all"].rows == drift["sum_bigint"].rows == 1
    assert "max_int" not in drift
    assert "approx_count_distinct_string" not in drift


def test_corrections_count_unless_patience_changed(store: Store, tmp_path: Path) -> None:
    events = events_of()
    begun = begin(store, tmp_path, events)
    file = write(tmp_path, VIEW, events)
    table = pq.read_table(file)
    at = table.column_names.index(CORRECTIONS)
    pq.write_table(table.set_column(at, CORRECTIONS, pa.array([1] * table.num_rows, pa.int64())), file)
    (drift,) = store.compare(begun, "events", [file], tmp_path / "evidence").drift
    assert (drift.column, drift.rows) == ("corrections", 12)
    adopted = store.adopt(VIEW, "a", {"events": 9}, 1)
    assert adopted.bases[0].next_horizon == begun.bases[0].next_horizon, "the beat goes on"
    assert store.compare(adopted, "events", [file], tmp_path / "evidence").drift == ()


def test_a_layer_without_rows_is_compared_too(store: Store, tmp_path: Path) -> None:
    nothing = store.register(make_view("nothing"), "a", {"events": 5})
    merge(store, tmp_path, nothing, [])
    begun = store.begin_beat("nothing", 1, "events")
    assert store.compare(begun, "events", [], tmp_path / "evidence") == Comparison(0, 0, ())
    comparison = store.compare(begin(store, tmp_path, events_of()), "events", [], tmp_path / "evidence")
    assert (comparison.rows, comparison.events) == (12, 0)
    assert (comparison.drift[0].column, comparison.drift[0].rows) == ("events", 12)


def test_a_view_of_one_row_is_compared(store: Store, tmp_path: Path) -> None:
    events = [Event((), 0, simple_event(None, 0, n).values) for n in range(5)]
    begun = begin(store, tmp_path, events, make_view("total", keys=(), window=None))
    assert compare(store, tmp_path, begun, events[::-1]) == Comparison(1, 5, ())
    drift = compare(store, tmp_path, begun, events[1:]).drift
    assert drift[0] == Drift("events", 1, "all events: 4 by the batch layer, 5 by the speed layer")


# The horizon


def test_a_beat_moves_the_horizon_on_and_later_commits_beside_it(store: Store, tmp_path: Path) -> None:
    begun = begin(store, tmp_path, events_of(10))
    assert (begun.bases[0].horizon, begun.bases[0].next_horizon) == (0, 2)
    merge(store, tmp_path, begun, events_of(3))
    assert counted(store, find(store, begun)) == 13
    ended = end_beat(store, tmp_path, begun, events_of(10))
    assert (ended.bases[0].horizon, ended.bases[0].next_horizon, ended.bases[0].applied_to) == (2, None, 3)
    assert counted(store, ended) == 13
    with store.snapshot() as snapshot:
        assert snapshot.speed_events(ended) == 3
        assert snapshot.count(ended) == (10, 3)
        assert [each.to_commit for each in snapshot.audits("traffic")] == [2]


def test_batch_tables_are_merged_or_kept_beside_each_other(store: Store, tmp_path: Path) -> None:
    ended = end_beat(store, tmp_path, begin(store, tmp_path, events_of(10)), events_of(10))
    merge(store, tmp_path, ended, events_of(4))
    beside = end_beat(store, tmp_path, store.begin_beat("traffic", 1, "events"), events_of(4))
    assert [(table.from_commit, table.to_commit) for table in beside.batch] == [(0, 2), (2, 3)]
    merge(store, tmp_path, ended, events_of(5))
    merged = end_beat(store, tmp_path, store.begin_beat("traffic", 1, "events"), events_of(5), merged=True)
    assert [(table.from_commit, table.to_commit) for table in merged.batch] == [(0, 4)]
    assert merged.batch[0].events == counted(store, merged) == 19
    assert len(store.faults_of(beside)) == 2, "what was merged is gone"


def test_a_beat_needs_something_to_take_and_that_none_runs(store: Store, tmp_path: Path) -> None:
    store.register(VIEW, "a", {"events": 5})
    with wording.raises(ConflictError):
        store.begin_beat("traffic", 1, "events")
    merge(store, tmp_path, serving(store), events_of(2))
    store.begin_beat("traffic", 1, "events")
    with wording.raises(ConflictError):
        store.begin_beat("traffic", 1, "events")


def test_drift_is_an_alarm_and_both_sides_are_kept(store: Store, tmp_path: Path) -> None:
    begun = begin(store, tmp_path, events_of(10))
    comparison = compare(store, tmp_path, begun, events_of(9))
    store.refuse_beat(begun, audit(begun, comparison, at_us=5))
    refused = serving(store)
    assert str(refused.alarm).startswith("the two layers disagree over commits [0, 2): events: 1 rows, such as k0")
    assert (refused.bases[0].horizon, refused.bases[0].next_horizon) == (0, 2)
    assert counted(store, refused) == 10
    store.end_beat(begun, [store.make_batch_table(begun, (0, 2), [])], audit(begun, at_us=6))
    assert serving(store).alarm is None
    with store.snapshot() as snapshot:
        newest, older = snapshot.audits("traffic")
        assert snapshot.audits("traffic", limit=1) == [newest]
    assert (newest.agreed, older.agreed, older.drift) == (True, False, comparison.drift)


def test_a_beat_whose_version_was_edited_meanwhile_changes_nothing(store: Store, tmp_path: Path) -> None:
    begun = begin(store, tmp_path, events_of(10))
    table = store.make_batch_table(begun, (0, 2), [write(tmp_path, VIEW, events_of(10))])
    store.adopt(replace(VIEW, columns=VIEW.columns[:1]), "b", {"events": 5}, 1)
    with wording.raises(ConflictError, 1):
        store.end_beat(begun, [table], audit(begun))
    with store.snapshot() as snapshot:
        assert snapshot.audits("traffic") == []
    assert counted(store, serving(store)) == 10


def test_a_cell_in_several_tables_is_one(store: Store, tmp_path: Path) -> None:
    begun = begin(store, tmp_path, events_of())
    merge(store, tmp_path, begun, [*events_of(5), simple_event("/new", 0, 1)])
    with store.snapshot() as snapshot:
        version = snapshot.serving("traffic")
        assert version is not None
        batch, speed = snapshot.count(version)
        assert (batch, snapshot.count_cells(version)) == (0, 4 * 3 + 1)
        assert speed > snapshot.count_cells(version)
