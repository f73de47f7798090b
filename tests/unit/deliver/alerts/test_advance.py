"""The state of an alert, from rows and times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.deliver.alerts import advance
from headrace.deliver.alerts.advance import AlertRules, absent, note_rows, note_time
from headrace.deliver.alerts.alert_state import AlertSilence, AlertState, Observation, ViewClock
from headrace.serve.windows import Windows

MINUTE = 60_000_000
RULES = AlertRules("high", windows=Windows(60_000, 60_000), targets=("webhook",))


def row(page: str, minute: int, matches: bool = True) -> tuple[dict[str, Any], Observation]:
    seen = Observation({"page": page, "n": 9}, matches, 1, 1, minute * MINUTE, (minute + 1) * MINUTE)
    return {"page": page}, seen


def step(
    state: AlertState, rules: AlertRules, rows: list[Any], minute: float, now_us: int = 1, patience: float = 0
) -> AlertState:
    clock = ViewClock(int(minute * MINUTE), int((minute - patience) * MINUTE))
    return note_time(note_rows(state, rules, rows, clock), rules, clock, now_us)


def notices(state: AlertState) -> list[tuple[str, str]]:
    return [(notice.state, notice.key["page"]) for notice in state.notices]


def incidents(state: AlertState) -> list[tuple[str, float, float | None, float | None]]:
    entries = [entry.incident for entries in state.keys.values() for entry in entries]
    times = [(each.state, each.since_us, each.fired_at_us, each.resolved_at_us) for each in entries]
    return [(name, *(None if us is None else us / MINUTE for us in us_times)) for name, *us_times in times]  # type: ignore[misc]


def test_each_key_fires_and_is_resolved_once() -> None:
    state = step(AlertState(), RULES, [row("a", 0), row("b", 0)], 0.5)
    state = step(state, RULES, [row("a", 0), row("b", 0)], 0.6)
    assert notices(state) == [("firing", "a"), ("firing", "b")]
    state = step(state, RULES, [row("b", 1)], 2.1)
    assert notices(state) == [("firing", "a"), ("firing", "b"), ("resolved", "a")]
    assert [entry.key["page"] for entry in state.resolved] == ["a"]
    assert len({notice.id for notice in state.notices}) == 3


def test_an_incident_that_is_over_when_it_is_seen_gives_both_notices() -> None:
    state = step(AlertState(), RULES, [row("a", 0), row("a", 1)], 100)
    assert incidents(state) == [("resolved", 0, 0, 2)]
    assert notices(state) == [("firing", "a"), ("resolved", "a")]
    assert [notice.incident.resolved_at_us for notice in state.notices] == [None, 2 * MINUTE]


def test_history_does_not_fire() -> None:
    state = step(replace(AlertState(), from_us=MINUTE), RULES, [row("a", 0), row("a", 3)], 100)
    assert incidents(state) == [("resolved", 3, 3, 4)]


def test_it_fires_once_the_condition_has_held_for_so_long() -> None:
    rules = replace(RULES, for_us=2 * MINUTE)
    state = step(AlertState(), rules, [row("a", 0)], 0.5)
    state = step(state, rules, [row("a", 1)], 1.9)
    assert incidents(state) == [("pending", 0, None, None)]
    state = step(state, rules, [], 2)
    assert incidents(state) == [("firing", 0, 2, None)]


def test_a_period_that_is_too_short_gives_no_incident_until_late_events_make_it_longer() -> None:
    rules = replace(RULES, for_us=3 * MINUTE)
    state = step(AlertState(), rules, [row("a", 0), row("a", 2)], 10)
    assert [state for state, *_ in incidents(state)] == ["short", "short"]
    assert not state.open
    assert not state.resolved
    state = step(state, rules, [row("a", 1)], 10)
    assert incidents(state) == [("resolved", 0, 3, 3)]


def test_a_row_that_may_still_change_ends_no_incident() -> None:
    state = step(AlertState(), RULES, [row("a", 0), row("a", 1)], 1.5, patience=1)
    state = step(state, RULES, [row("a", 1, False)], 1.6, patience=1)
    assert incidents(state) == [("firing", 0, 0, None)]
    state = step(state, RULES, [], 3, patience=1)
    assert incidents(state) == [("resolved", 0, 0, 1)]


def test_a_notice_of_a_row_that_no_longer_matches_is_withdrawn_when_its_window_is_settled() -> None:
    state = step(AlertState(), RULES, [row("a", 0)], 0.2)
    state = step(state, RULES, [row("a", 0, False)], 0.4)
    state = step(state, RULES, [row("a", 0)], 0.5)
    state = step(state, RULES, [row("a", 0, False)], 0.6)
    assert incidents(state) == []
    assert notices(state) == [("firing", "a")]  # not one for each time that it changes
    state = step(state, RULES, [], 1)
    assert notices(state) == [("firing", "a"), ("resolved", "a")]
    assert state.notices[-1].incident.reason == advance.WITHDRAWN
    assert not state.withdrawn


def test_late_events_open_an_incident_again() -> None:
    state = step(AlertState(), RULES, [row("a", 0)], 3.5)
    state = step(state, RULES, [row("a", at) for at in (1, 2, 3)], 3.6)
    assert incidents(state) == [("firing", 0, 0, None)]
    assert notices(state) == [("firing", "a"), ("resolved", "a"), ("firing", "a")]
    assert len({notice.id for notice in state.notices}) == 3


def test_old_incidents_are_forgotten_once_notices_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "MOST_ENDED", 2)
    state = step(AlertState(), RULES, [row("a", at) for at in (0, 2, 4, 6)], 10)
    assert incidents(state) == [("resolved", 4, 4, 5), ("resolved", 6, 6, 7)]
    assert state.forgotten_us == 3 * MINUTE
    assert len(state.notices) == 8
    late = step(state, RULES, [row("b", 1)], 10)
    assert late.keys == state.keys
    assert notices(late)[8:] == [("firing", "b"), ("resolved", "b")]


def test_a_silence_holds_the_notice_back_until_it_ends() -> None:
    state = replace(AlertState(), silences=(AlertSilence("s", {"page": "a"}, 100),))
    state = step(state, RULES, [row("a", 0), row("b", 0)], 0.5, now_us=50)
    assert notices(state) == [("firing", "b")]
    state = step(state, RULES, [], 0.6, now_us=101)
    assert notices(state) == [("firing", "b"), ("firing", "a")]


def test_what_was_silenced_to_its_end_gives_no_notice() -> None:
    state = replace(AlertState(), silences=(AlertSilence("s", {}, 100),))
    state = step(state, RULES, [row("a", 0)], 0.5, now_us=50)
    state = step(state, RULES, [], 2.1, now_us=200)
    assert notices(state) == []
    assert len(state.resolved) == 1


def test_a_notice_is_repeated_where_that_is_asked_for() -> None:
    rules = replace(RULES, repeat_us=100)
    state = step(AlertState(), rules, [row("a", 0)], 0.5, now_us=1)
    state = step(state, rules, [], 0.6, now_us=100)
    assert len(state.notices) == 1
    state = step(state, rules, [], 0.7, now_us=101)
    assert len({notice.id for notice in state.notices}) == 2


def test_an_alert_without_a_target_has_incidents_and_no_notices() -> None:
    rules = replace(RULES, targets=())
    state = step(AlertState(), rules, [row("a", 0), row("b", 5)], 5.5)
    assert [name for name, *_ in incidents(state)] == ["resolved", "firing"]
    assert state.notices == ()


def test_absence_fires_by_the_clock_and_ends_with_the_next_event() -> None:
    rules = AlertRules("quiet", targets=("log",))
    state = absent(AlertState(), rules, 5, 100, 1000, {"events": 5})
    state = absent(state, rules, 5, 100, 1099, {"events": 5})
    assert not state.notices
    state = absent(state, rules, 5, 100, 1100, {"events": 5})
    state = absent(state, rules, 5, 100, 1200, {"events": 5})
    assert [notice.state for notice in state.notices] == ["firing"]
    state = absent(state, rules, 6, 100, 1300, {"events": 6})
    assert [notice.state for notice in state.notices] == ["firing", "resolved"]
    assert state.open == []
    (entry,) = state.resolved
    assert (entry.incident.since_us, entry.incident.fired_at_us, entry.incident.resolved_at_us) == (1000, 1100, 1300)


def test_an_event_that_came_while_the_server_was_down_counts() -> None:
    rules = AlertRules("quiet", targets=("log",))
    state = absent(AlertState(), rules, 5, 100, 1000, {})
    assert not absent(state, rules, 9, 100, 5000, {}).notices
