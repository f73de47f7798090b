"""Readers of changes see sessions that late events extend and merge: a delete for each row that is no longer there."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.serve.change_readers import Reader
from tests.unit.serve.workbench import Workbench, bench, view_of
from tests.unit.store.partial_files import simple_event

MINUTE = 60_000
VIEW = view_of("session_window(at, '2 minutes')")
Change = tuple[str, str, int, Any]  # op, key, start in minutes, events


def changes(reader: Reader) -> list[Change]:
    """What the reader gets, in the order of keys and times."""
    reader.catch_up()
    assert not any(batch.restarted for batch in reader.batches)
    rows = [(change.op, change.row) for batch in reader.batches for change in batch.changes]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return sorted(
        (op, row["k0"], round((row["window_start"] - epoch).total_seconds() / 60), row.get("n")) for op, row in rows
    )


def commit(view: Workbench, *minutes: float, key: str = "a") -> None:
    view.commit([simple_event(key, round(at * MINUTE)) for at in minutes])


def test_a_late_event_merges_two_sessions() -> None:
    with bench(patience_ms=60 * MINUTE) as view:
        view.start(VIEW)
        reader = Reader(view.store, limit=1000)
        commit(view, 10, 14)
        commit(view, 10, 30, key="b")
        assert changes(reader) == [
            ("upsert", "a", 10, 1),
            ("upsert", "a", 14, 1),
            *(("upsert", "b", at, 1) for at in (10, 30)),
        ]
        commit(view, 12)
        assert changes(reader) == [("delete", "a", 14, None), ("upsert", "a", 10, 3)]
        commit(view, 8)
        assert changes(reader) == [("delete", "a", 10, None), ("upsert", "a", 8, 4)]
        commit(view, 16)
        assert changes(reader) == [("upsert", "a", 8, 5)]
        assert changes(reader) == []


def test_a_session_that_two_steps_merge_is_deleted_once() -> None:
    with bench(patience_ms=60 * MINUTE) as view:
        view.start(VIEW)
        commit(view, 10, 14, 18)
        reader = Reader(view.store, limit=1000)
        assert len(changes(reader)) == 3
        commit(view, 12)
        commit(view, 16)
        assert changes(reader) == [("delete", "a", 14, None), ("delete", "a", 18, None), ("upsert", "a", 10, 5)]


def test_a_settled_session_that_is_open_again_is_deleted_and_comes_back() -> None:
    with bench() as view:
        view.start(VIEW)
        reader = Reader(view.store, limit=1000, on_close=True)
        commit(view, 10, 13)
        assert changes(reader) == [("upsert", "a", 10, 1)]
        commit(view, 12)
        assert changes(reader) == [("delete", "a", 10, None)]
        commit(view, 20)
        assert changes(reader) == [("upsert", "a", 10, 3)]


def test_an_event_at_the_end_of_a_session_does_not_settle_it() -> None:
    with bench() as view:
        view.start(VIEW)
        reader = Reader(view.store, limit=1000, on_close=True)
        commit(view, 10)
        commit(view, 12, key="b")
        assert changes(reader) == []
        commit(view, 12.001, key="b")
        assert changes(reader) == [("upsert", "a", 10, 1)]


def test_a_session_that_is_touched_again_is_given_once() -> None:
    """Also by a reader that takes one step at a time."""
    with bench(patience_ms=60 * MINUTE) as view:
        view.start(VIEW)
        commit(view, 10, 14, 18)
        reader = Reader(view.store, limit=1)
        assert len(changes(reader)) == 3
        for minute in (10.5, 16, 12):
            commit(view, minute)
        assert changes(reader) == [("delete", "a", 14, None), ("delete", "a", 18, None), ("upsert", "a", 10, 6)]


@pytest.mark.parametrize("on_close", [False, True])
@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_reader_has_the_rows_of_the_view(on_close: bool, seed: int) -> None:
    """Events in any order: most of them are late, and sessions merge in each step."""
    chance = random.Random(seed)
    with bench(chance.choice([0, 5 * MINUTE])) as view:
        view.start(VIEW)
        readers = [Reader(view.store, limit=limit, on_close=on_close) for limit in (1, 4, 1000)]
        for _ in range(chance.randrange(1, 14)):
            minutes = [chance.choice([chance.randrange(40), chance.uniform(0, 40)]) for _ in range(chance.randrange(4))]
            commit(view, *minutes, key=chance.choice("ab"))
            for reader in readers:
                for _ in range(chance.choice([0, 0, 1, 3])):
                    reader.read()
            if chance.random() < 0.1:
                view.refresh()
        expected = {place: row for place, row in view.rows().items() if row["settled"] or not on_close}
        for reader in readers:
            reader.catch_up()
            assert reader.rows == expected
            assert not any(batch.restarted for batch in reader.batches)
