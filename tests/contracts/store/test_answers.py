"""Whatever tables a version's rows lie in, every way to read a selection gives what plain Python gives."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.define.model import View
from headrace.language.calendar import Calendar
from headrace.store.selection import Selection
from headrace.store.store_contract import Snapshot, Store
from headrace.store.version import Version
from headrace.types import DOUBLE, STRING, Type
from tests.contracts.store.conftest import Place
from tests.contracts.store.layers import build, end_beat, find, merge, serving, step, write
from tests.contracts.store.reference import Row, expected, presented, same_rows
from tests.effort import examples
from tests.unit.store.partial_files import TYPES, Event, make_view, simple_event

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
START = 20_000 * DAY
EVERY = make_view("traffic", keys=(STRING, DOUBLE))
VIEW = replace(EVERY, columns=tuple({column.aggregate.name: column for column in EVERY.columns}.values()))
NAMES = [None, "", "a", "é"]
NUMBERS = [None, 1.5, -2.0, math.nan]


def events_of(count: int, seed: int) -> list[Event]:
    """Over three days, often in the same cells, and at the edges of hours and days."""
    chance = random.Random(seed)
    times = [0, HOUR - MINUTE, HOUR, DAY - MINUTE, DAY, *(chance.randrange(3 * DAY) for _ in range(8))]
    return [
        Event(
            (chance.choice(NAMES), chance.choice(NUMBERS)),
            START + chance.choice(times),
            simple_event("", 0, n).values if n % 3 else dict.fromkeys(of.name for of in TYPES),
        )
        for n in range(count)
    ]


COMMITS = [events_of(40, seed) for seed in range(4)]


@dataclass(frozen=True)
class Loaded:
    """A store with all commits in it, and in which layer they are."""

    store: Store
    version: Version
    batch: list[Event]
    speed: list[Event]


def in_speed_tables(store: Store, folder: Path) -> Version:
    version = store.register(VIEW, "a", {"events": 5})
    for events in COMMITS:
        merge(store, folder, version, events)
    return find(store, version)


def in_a_batch_table(store: Store, folder: Path) -> Version:
    return build(store, folder, COMMITS, VIEW)


def in_both(store: Store, folder: Path) -> Version:
    version = build(store, folder, COMMITS[:2], VIEW)
    for events in COMMITS[2:]:
        merge(store, folder, version, events)
    return find(store, version)


def amid_a_beat(store: Store, folder: Path) -> Version:
    version = build(store, folder, COMMITS[:2], VIEW)
    store.promote("traffic", 1)
    merge(store, folder, version, COMMITS[2])
    store.begin_beat("traffic", 1, "events")
    merge(store, folder, version, COMMITS[3])
    return find(store, version)


def after_beats(store: Store, folder: Path) -> Version:
    version = build(store, folder, COMMITS[:1], VIEW)
    store.promote("traffic", 1)
    for events, merged in zip(COMMITS[1:3], (True, False), strict=True):
        merge(store, folder, version, events)
        end_beat(store, folder, store.begin_beat("traffic", 1, "events"), events, merged=merged)
    merge(store, folder, version, COMMITS[3])
    return find(store, version)


@pytest.fixture(scope="module", params=[in_speed_tables, in_a_batch_table, in_both, amid_a_beat, after_beats])
def loaded(
    request: pytest.FixtureRequest, new_place: Callable[[Path], Place], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Loaded]:
    folder = tmp_path_factory.mktemp("answers")
    store = new_place(folder).open()
    version = request.param(store, folder)
    commits = [[], *COMMITS]
    batch = [event for events in commits[: version.bases[0].horizon + 1] for event in events]
    speed = [event for events in commits[version.bases[0].horizon + 1 :] for event in events]
    yield Loaded(store, version, batch, speed)
    store.close()


bounds = st.none() | st.integers(-HOUR // MINUTE, 3 * DAY // MINUTE).map(lambda at: START + at * MINUTE)
keys = st.fixed_dictionaries({}, optional={"k0": st.sampled_from(NAMES), "k1": st.sampled_from(NUMBERS)})
# The clocks of these zones are changed in the three days, in Asuncion at midnight.
ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Asuncion")
calendars = st.builds(
    Calendar, unit=st.sampled_from(["day", "week", "month"]), count=st.integers(1, 2), zone=st.sampled_from(ZONES)
)


def of_calendar(selection: Selection, calendar: Calendar, step_ms: int) -> Selection:
    return replace(selection, calendar=calendar, bucket_ms=DAY, origin_ms=0, step_ms=step_ms)


fixed = st.builds(
    Selection,
    by=st.sampled_from([(), ("k0",), ("k1",), ("k1", "k0"), ("k0", "k1")]),
    where=st.just(()) | st.lists(keys, min_size=1, max_size=2).map(tuple),
    panes=st.tuples(bounds, bounds),
    bucket_ms=st.sampled_from([None, MINUTE, HOUR, 90 * MINUTE, DAY, 36 * HOUR]),
    origin_ms=st.sampled_from([0, START, START + 5 * MINUTE, START + HOUR]),
    limit=st.none() | st.integers(1, 20),
    newest_first=st.booleans(),
)
selections = fixed | st.builds(of_calendar, fixed, calendars, st.sampled_from([0, HOUR, 90 * MINUTE]))


def page_by_page(snapshot: Snapshot, version: Version, selection: Selection) -> list[Row]:
    rows: list[Any] = []
    while page := snapshot.rows(version, selection):
        rows += page
        if selection.limit is None:
            break
        selection = replace(selection, after=page[-1][: 1 + len(selection.by)])
    return rows


@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(selections)
def test_every_way_to_read_gives_the_reference(loaded: Loaded, selection: Selection) -> None:
    whole = replace(selection, limit=None)
    everything = expected(VIEW, loaded.batch, loaded.speed, whole)
    wanted = everything[: selection.limit]
    with loaded.store.snapshot() as snapshot:

        def shown(rows: list[Row]) -> list[Row]:
            return presented(VIEW, selection, rows)

        folded = snapshot.fold(loaded.version, selection)
        rows = list(zip(*(column.to_pylist() for column in folded.columns), strict=True))
        assert same_rows(shown(rows), wanted)
        assert same_rows(shown(snapshot.rows(loaded.version, selection)), wanted)
        assert same_rows(shown(page_by_page(snapshot, loaded.version, selection)), everything)
        with closing(snapshot.pieces(loaded.version, whole, ordered=True)) as pieces:
            assert same_rows(shown([tuple(row.values()) for row in pieces.read_all().to_pylist()]), everything)
        with closing(snapshot.pieces(loaded.version, whole, ordered=False)) as pieces:
            assert pieces.read_all().num_rows == len(everything)
        assert snapshot.count_groups(loaded.version, whole, 10_000) == len(everything)
        assert snapshot.count_groups(loaded.version, whole, 0) == (None if everything else 0)


def test_rows_are_counted_by_layer(loaded: Loaded) -> None:
    with loaded.store.snapshot() as snapshot:
        batch, speed = snapshot.count(loaded.version)
        assert snapshot.speed_events(loaded.version) == len(loaded.speed)
    assert batch == sum(table.rows for table in loaded.version.batch)
    assert (batch > 0, speed > 0) == (bool(loaded.batch), bool(loaded.speed))


@pytest.mark.parametrize("of", TYPES, ids=str)
def test_a_page_goes_on_behind_a_key_of_any_type_and_behind_null(store: Store, tmp_path: Path, of: Type) -> None:
    view: View = make_view("traffic", keys=[of])
    version = store.register(view, "f", {"events": 0})
    value = simple_event(None, 0).values[of.name]
    file = write(tmp_path, view, [simple_event(key, 0) for key in (None, value)])
    store.apply(step(0, 1), {version.id: [str(file)]})
    with store.snapshot() as snapshot:
        selection = Selection(by=("k0",), bucket_ms=MINUTE, limit=1)
        assert [row[1] for row in page_by_page(snapshot, serving(store), selection)] == [None, value]
