"""Many lookups of keys between two changes of a view give what single reads give."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from headrace.store.store_contract import Selection, Store
from headrace.store.version import Version
from headrace.types import DATE, STRING
from tests.contracts.store.layers import build, find, merge
from tests.contracts.store.reference import expected, presented, same_rows
from tests.unit.store.partial_files import Event, make_view, simple_event

MINUTE = 60_000
EVERY = make_view("traffic", keys=(STRING, DATE))
VIEW = replace(EVERY, columns=tuple({column.aggregate.name: column for column in EVERY.columns}.values()))
NAMES = [None, "", "a", "é", *(f"n{number}" for number in range(16))]
DATES = [None, date(2026, 1, 1), date(2026, 3, 29)]
BYS = [(), ("k1",), ("k1", "k0"), ("k0", "k1")]


def events_of(seed: int) -> list[Event]:
    chance = random.Random(seed)
    return [
        Event(
            (chance.choice(NAMES), chance.choice(DATES)),
            chance.randrange(5) * MINUTE,
            simple_event("", 0, number).values,
        )
        for number in range(120)
    ]


COMMITS = [events_of(seed) for seed in range(4)]


def in_the_speed_layer(store: Store, folder: Path) -> Version:
    version = store.register(VIEW, "a", {"events": 5})
    merge(store, folder, version, COMMITS[0])
    merge(store, folder, version, COMMITS[1])
    return version


def in_the_batch_layer(store: Store, folder: Path) -> Version:
    return build(store, folder, COMMITS[:2], VIEW)


def lookup(store: Store, version: Version, batch: list[Event], speed: list[Event], chance: random.Random) -> None:
    where = tuple(
        {"k0": chance.choice([*NAMES, "missing"]), "k1": chance.choice(DATES)} for _ in range(chance.choice([1, 1, 3]))
    )
    bound = chance.choice([None, MINUTE, 3 * MINUTE])
    selection = Selection(
        by=chance.choice(BYS),
        where=where,
        panes=chance.choice([(None, None), (bound, None), (None, bound)]),
        bucket_ms=chance.choice([None, MINUTE, 2 * MINUTE]),
        newest_first=chance.random() < 0.3,
    )
    rows = store.read(lambda snapshot: snapshot.rows(version, selection))
    assert same_rows(presented(VIEW, selection, rows), expected(VIEW, batch, speed, selection))


@pytest.mark.parametrize("load", [in_the_speed_layer, in_the_batch_layer])
def test_lookups_follow_each_change(store: Store, tmp_path: Path, load: Callable[[Store, Path], Version]) -> None:
    version, chance = load(store, tmp_path), random.Random(7)
    first = [event for events in COMMITS[:2] for event in events]
    batch, speed = (first, []) if load is in_the_batch_layer else ([], first)
    for events in ([], COMMITS[2], COMMITS[3]):
        if events:
            merge(store, tmp_path, version, events)
        speed = [*speed, *events]
        for _ in range(60):
            lookup(store, find(store, version), batch, speed, chance)
