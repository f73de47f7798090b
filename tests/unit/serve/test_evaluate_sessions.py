"""Sessions are composed of panes like those of a reference in plain Python, for every question."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.serve.evaluate
import headrace.store.duckdb.snapshot
from headrace.errors import QuestionError
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from tests.unit.serve.workbench import NOW, Workbench, bench, view_of
from tests.unit.store.partial_files import Event, simple_event

MINUTE, GAP = 60_000, 120_000
SESSIONS = "session_window(at, '2 minutes')"
KEYS = ("a", "b", None, "é")
Row = tuple[Any, ...]


def time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def sessions(events: list[Event], by: list[str], settled_ms: int) -> list[Row]:
    """(start, key, end, events, sum, whether it is settled), in the order of an answer."""
    groups: dict[Any, list[Event]] = {}
    for event in sorted(events, key=lambda event: event.at_ms):
        groups.setdefault(event.keys[0] if by else "", []).append(event)
    rows: list[Row] = []
    for key, members in groups.items():
        parts: list[list[Event]] = []
        for event in members:
            if not parts or event.at_ms > parts[-1][-1].at_ms + GAP:
                parts.append([])
            parts[-1].append(event)
        for part in parts:
            start, end = part[0].at_ms, part[-1].at_ms + GAP
            total = sum(event.values["BIGINT"] for event in part)
            rows.append((start, (key is not None, key or ""), end, len(part), total, end < settled_ms))
    return sorted(rows, key=lambda row: row[:2])


def drawn_events(chance: random.Random) -> list[list[Event]]:
    """Commits; many events are exactly one gap apart."""
    times = [
        chance.choice([GAP * chance.randrange(20), chance.randrange(20 * GAP)]) for _ in range(chance.randrange(40))
    ]
    events = [simple_event(chance.choice(KEYS), at_ms, chance.randrange(10)) for at_ms in times]
    size = chance.choice([1, 5, 40])
    return [events[at : at + size] for at in range(0, len(events), size)]


def ask(view: Workbench, limit: int, **question: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    following: set[int] = set()
    cursor = None
    while True:
        page = answer(view.store, Question.of("v", limit=limit, cursor=cursor, **question), up_to_date, NOW)
        rows += page.rows()
        following |= set() if page.more_rows is None else {len(rows) + page.more_rows}
        cursor = page.next_cursor
        if cursor is None:
            assert following <= {len(rows)}, "each page says how many rows follow"
            return rows


@pytest.mark.parametrize("few", [4_000, -1], ids=["python fold", "sql fold"])
@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_answers_equal_the_reference(few: int, seed: int) -> None:
    chance = random.Random(seed)
    with bench(chance.choice([0, MINUTE])) as view, pytest.MonkeyPatch.context() as patch:
        patch.setattr(headrace.store.duckdb.snapshot, "FEW", few)
        having = chance.random() < 0.2
        view.start(view_of(SESSIONS, "HAVING count(*) > 1" if having else ""))
        for events in drawn_events(chance):
            view.commit(events)
            if chance.random() < 0.2:
                view.refresh()
        events = [event for commit in view.events for event in commit]
        newest = max((event.at_ms for event in events), default=-1)
        by = chance.choice([["k0"], ["k0"], []])
        question: dict[str, Any] = {"by": by}
        wanted = [*events]
        if chance.random() < 0.4:
            keys = chance.sample(KEYS, 2)
            question["key"] = [{"k0": key} for key in keys]
            wanted = [event for event in events if event.keys[0] in keys]
        elif chance.random() < 0.5:
            patch.setattr(headrace.serve.evaluate, "MOST_SHAPED", 3)
        rows = sessions(wanted, by, newest - view.patience_ms)
        start, end = sorted(chance.sample(range(21 * GAP), 2))
        if chance.random() < 0.3:
            question["start"] = time(start)
            rows = [row for row in rows if row[2] > start]
        if chance.random() < 0.3:
            question["end"] = time(end)
            rows = [row for row in rows if row[2] <= end]
        if chance.random() < 0.3:
            question["settled_only"] = True
            rows = [row for row in rows if row[5]]
        if chance.random() < 0.3:
            question["order"] = "newest"
            rows = sorted(rows, key=lambda row: (-row[0], row[1]))
        rows = [row for row in rows if not having or row[3] > 1]
        found = [
            (
                row["window_start"],
                *((row["k0"] is not None, row["k0"] or "") for _ in by),
                row["window_end"],
                row["n"],
                row["b"],
                row["settled"],
            )
            for row in ask(view, chance.choice([1, 3, 1000]), **question)
        ]
        expected = [
            (time(start), *(key for _ in by), time(end), n, b, settled) for start, key, end, n, b, settled in rows
        ]
        assert found == expected, question


def test_all_time_merges_sessions() -> None:
    with bench() as view:
        view.start(view_of(SESSIONS))
        view.commit([simple_event("a", at_ms, 1) for at_ms in (0, GAP, 4 * GAP)])
        assert [row["n"] for row in ask(view, 10)] == [2, 1]
        assert [row["n"] for row in ask(view, 10, window="all")] == [3]
        assert [row["n"] for row in ask(view, 10, window="all", end=time(2 * GAP))] == [2]


def test_a_relative_start_counts_from_the_newest_event() -> None:
    with bench() as view:
        view.start(view_of(SESSIONS))
        view.commit([simple_event("a", at_ms, 1) for at_ms in (0, 4 * GAP, 8 * GAP + 123)])
        assert [row["n"] for row in ask(view, 10, start="-7m")] == [1, 1]
        assert [row["window_end"] for row in ask(view, 10, start=timedelta(seconds=-1))] == [time(9 * GAP + 123)]


@pytest.mark.parametrize(
    "question", [{"window": "5m"}, {"every": "1m"}, {"window": "day"}, {"window": "1h", "cumulate": "2m"}]
)
def test_other_windows_are_refused(question: dict[str, Any]) -> None:
    with bench() as view:
        view.start(view_of(SESSIONS))
        with pytest.raises(QuestionError, match="sessions"):
            ask(view, 10, **question)


def test_an_answer_says_that_its_windows_are_sessions() -> None:
    with bench() as view:
        view.start(view_of(SESSIONS))
        windows = answer(view.store, Question.of("v"), up_to_date, NOW).windows
    assert windows is not None
    assert (windows["window"], windows["gap_ms"], windows["window_ms"]) == ("session", GAP, None)
