"""The state of an alert, from rows and times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.alert.course import Rules, absent, note_rows, note_time
from headrace.alert.incident import Clock, Observation
from headrace.alert.state import AlertState, Silence

MINUTE = 60_000_000
RULES = Rules("high", slide_us=MINUTE, targets=("webhook",))


def row(page: str, minute: int, matches: bool = True, *, settled: bool = False) -> tuple[dict[str, Any], Observation]:
    seen = Observation({"page": page, "n": 9}, matches, settled, 1, 1, minute * MINUTE, (minute + 1) * MINUTE)
    return {"page": page}, seen


def step(state: AlertState, rules: Rules, rows: list[Any], minute: float, now_us: int = 1) -> AlertState:
    clock = Clock(int(minute * MINUTE), int(minute * MINUTE))
    return note_time(note_rows(state, rules, rows, clock), rules, clock, now_us)


def notices(state: AlertState) -> list[tuple[str, str]]:
    return [(notice.state, notice.key["page"]) for notice in state.notices]


def test_each_key_fires_and_is_resolved_once() -> None:
    state = step(AlertState(), RULES, [row("a", 0), row("b", 0)], 0.5)
    state = step(state, RULES, [row("a", 0), row("b", 0)], 0.6)
    assert notices(state) == [("firing", "a"), ("firing", "b")]
    state = step(state, RULES, [row("a", 0, False, settled=True)], 1.1)
    assert notices(state) == [("firing", "a"), ("firing", "b"), ("resolved", "a")]
    assert [entry.key["page"] for entry in state.resolved] == ["a"]
    assert len({notice.id for notice in state.notices}) == 3


def test_rows_of_the_past_do_not_fire() -> None:
    assert step(AlertState(), RULES, [row("a", 0)], 100).open == {}


def test_a_silence_holds_the_notice_back_until_it_ends() -> None:
    state = replace(AlertState(), silences=(Silence("s", {"page": "a"}, 100),))
    state = step(state, RULES, [row("a", 0), row("b", 0)], 0.5, now_us=50)
    assert notices(state) == [("firing", "b")]
    state = step(state, RULES, [], 0.6, now_us=101)
    assert notices(state) == [("firing", "b"), ("firing", "a")]


def test_what_was_silenced_to_its_end_gives_no_notice() -> None:
    state = replace(AlertState(), silences=(Silence("s", {}, 100),))
    state = step(state, RULES, [row("a", 0)], 0.5, now_us=50)
    state = step(state, RULES, [row("a", 0, False, settled=True)], 1.1, now_us=200)
    assert notices(state) == []
    assert len(state.resolved) == 1


def test_a_notice_is_repeated_where_that_is_asked_for() -> None:
    rules = replace(RULES, repeat_us=100)
    state = step(AlertState(), rules, [row("a", 0)], 0.5, now_us=1)
    state = step(state, rules, [], 0.6, now_us=100)
    assert len(state.notices) == 1
    state = step(state, rules, [], 0.7, now_us=101)
    assert len({notice.id for notice in state.notices}) == 2


def test_absence_fires_by_the_clock_and_ends_with_the_next_event() -> None:
    rules = Rules("quiet", targets=("log",))
    state = absent(AlertState(), rules, 5, 100, 1000, {"events": 5})
    state = absent(state, rules, 5, 100, 1099, {"events": 5})
    assert not state.notices
    state = absent(state, rules, 5, 100, 1100, {"events": 5})
    state = absent(state, rules, 5, 100, 1200, {"events": 5})
    assert [notice.state for notice in state.notices] == ["firing"]
    state = absent(state, rules, 6, 100, 1300, {"events": 6})
    assert [notice.state for notice in state.notices] == ["firing", "resolved"]
    assert state.open == {}


def test_an_event_that_came_while_the_server_was_down_counts() -> None:
    rules = Rules("quiet", targets=("log",))
    state = absent(AlertState(), rules, 5, 100, 1000, {})
    assert not absent(state, rules, 9, 100, 5000, {}).notices
