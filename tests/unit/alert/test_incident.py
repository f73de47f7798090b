"""The course of an alert for one key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.alert.incident import Clock, Incident, Observation, advance, observe

MINUTE = 60_000_000


def row(minute: int, matches: bool, settled: bool = False) -> Observation:
    return Observation({"n": minute}, matches, settled, 1, minute, minute * MINUTE, (minute + 1) * MINUTE)


def at(minutes: float, patience: float = 0) -> Clock:
    return Clock(int(minutes * MINUTE), int((minutes - patience) * MINUTE))


def run(rows: list[tuple[Observation, Clock]], for_minutes: int = 0) -> list[str | None]:
    incident: Incident | None = None
    states: list[str | None] = []
    for seen, clock in rows:
        incident = observe(incident if incident and incident.state != "resolved" else None, seen, clock)
        if incident is not None:
            incident = advance(incident, clock, for_minutes * MINUTE, MINUTE, 1)
        states.append(incident.state if incident else None)
    return states


def test_without_for_the_first_matching_row_fires() -> None:
    assert run([(row(0, False), at(0.5)), (row(0, True), at(0.6))]) == [None, "firing"]


def test_fires_once_the_condition_has_held_for_so_long() -> None:
    rows = [(row(0, True), at(0.5)), (row(0, True, True), at(1.1)), (row(1, True), at(1.2)), (row(1, True), at(2))]
    assert run(rows, 2) == ["pending", "pending", "pending", "firing"]


def test_a_provisional_row_that_does_not_match_keeps_an_incident() -> None:
    rows = [(row(0, True, True), at(1.1)), (row(1, False), at(1.2)), (row(1, True), at(1.8)), (row(1, True), at(2))]
    assert run(rows, 2) == ["pending", "pending", "pending", "firing"]


def test_a_settled_row_that_does_not_match_resolves() -> None:
    rows = [(row(0, True, True), at(1.1)), (row(1, False), at(1.5)), (row(1, False, True), at(2.1))]
    assert run(rows) == ["firing", "firing", "resolved"]


def test_a_pending_incident_ends_without_firing() -> None:
    assert run([(row(0, True, True), at(1)), (row(1, False, True), at(2))], 5) == ["pending", None]


def test_a_gap_begins_a_new_period() -> None:
    rows = [(row(0, True, True), at(1)), (row(3, True), at(3.5, 3)), (row(3, True), at(4, 3))]
    assert run(rows, 2) == ["pending", "pending", "pending"]


def test_a_key_without_newer_rows_is_resolved() -> None:
    incident = observe(None, row(0, True), at(0.5))
    assert incident is not None
    fired = advance(incident, at(0.5), 0, MINUTE, 7)
    assert fired is not None
    assert (fired.state, fired.fired_at_us) == ("firing", 7)
    assert advance(fired, at(1.9), 0, MINUTE, 8) == fired
    ended = advance(fired, at(2), 0, MINUTE, 9)
    assert ended is not None
    assert (ended.state, ended.resolved_at_us, ended.reason) == ("resolved", 9, "no newer row of the key")


def test_a_late_change_of_an_older_window_changes_nothing() -> None:
    rows = [(row(5, True), at(5.5, 3)), (row(4, False, True), at(5.6, 3))]
    assert run(rows) == ["firing", "firing"]


def test_without_windows_the_condition_holds_until_a_row_says_otherwise() -> None:
    def seen(matches: bool) -> Observation:
        return Observation({}, matches, True, 1, 1)

    rows = [(seen(True), at(1)), (seen(True), at(2)), (seen(True), at(3)), (seen(False), at(4)), (seen(True), at(5))]
    assert run(rows, 2) == ["pending", "pending", "firing", "resolved", "pending"]


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 4))
def test_settled_rows_fire_at_the_end_of_each_long_run(matches: list[bool], for_minutes: int) -> None:
    rows = [(row(minute, value, True), at(minute + 1)) for minute, value in enumerate(matches)]
    states = run(rows, for_minutes)
    length, fired = 0, False
    for value, state in zip(matches, states, strict=True):
        length = length + 1 if value else 0
        if value:
            fired = length >= for_minutes
            assert state == ("firing" if fired else "pending")
        else:
            assert state == ("resolved" if fired else None)
            fired = False
