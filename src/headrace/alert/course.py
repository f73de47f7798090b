"""Brings the state of an alert on: its incidents by rows and by time, and the notices that follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.alert.incident import Clock, Incident, Observation, advance, observe
from headrace.alert.state import AlertState, Entry, Notice, key_text

MOST_OPEN = 10_000  # incidents of one alert; further keys wait until some are over


@dataclass(frozen=True)
class Rules:
    """What the definition of an alert says about the course of its incidents."""

    name: str
    for_us: int = 0
    slide_us: int = 0  # of the view's windows; 0 without windows
    repeat_us: int | None = None  # how often a notice is repeated while the alert fires
    targets: tuple[str, ...] = ()


def note_rows(
    state: AlertState, rules: Rules, rows: Iterable[tuple[Mapping[str, Any], Observation]], clock: Clock
) -> AlertState:
    """The state after rows have changed, each with its key. What ended long ago is history and fires no more."""
    entries = dict(state.open)
    for key, observation in rows:
        text = key_text(key)
        entry = entries.get(text)
        begins = observation.matches and not _is_history(observation, rules, clock) and len(entries) < MOST_OPEN
        if entry is None and not begins:
            continue
        incident = observe(entry.incident if entry else None, observation, clock)
        entries.pop(text, None)
        if incident is not None:
            # What is over makes room: the next row of the key may begin another incident before this one is told.
            name = f"{text}#{incident.since_us}" if incident.state == "resolved" else text
            entries[name] = replace(entry, incident=incident) if entry else Entry(key, incident)
    return replace(state, open=entries)


def _is_history(observation: Observation, rules: Rules, clock: Clock) -> bool:
    return observation.end_us is not None and observation.end_us + rules.slide_us + rules.for_us <= clock.settled_us


def note_time(state: AlertState, rules: Rules, clock: Clock, now_us: int) -> AlertState:
    """The state once the time of the view is what `clock` says, with the notices that follow."""
    entries: dict[str, Entry] = {}
    over: list[Entry] = []
    notices = list(state.notices)
    for text, entry in state.open.items():
        incident = advance(entry.incident, clock, rules.for_us, rules.slide_us, now_us)
        if incident is None:
            continue
        entry = replace(entry, incident=incident)
        if incident.state == "firing" and _is_due(state, rules, entry, now_us):
            notices.append(_notice(rules, entry, now_us))
            entry = replace(entry, notified_at_us=now_us)
        if incident.state == "resolved":
            notices += [_notice(rules, entry, now_us)] if entry.notified_at_us is not None else []
            over.append(entry)
        else:
            entries[text] = entry
    return replace(state, open=entries, notices=tuple(notices)).with_resolved(tuple(reversed(over)))


def _is_due(state: AlertState, rules: Rules, entry: Entry, now_us: int) -> bool:
    """Whether a notice is to be written: once, or again after the time of repetition; not while it is silenced."""
    if is_silenced(state, entry, now_us):
        return False
    if entry.notified_at_us is None:
        return True
    return rules.repeat_us is not None and now_us - entry.notified_at_us >= rules.repeat_us


def is_silenced(state: AlertState, entry: Entry, now_us: int) -> bool:
    """Whether notices about this incident are held back."""
    row = {**entry.incident.row, **entry.key}
    return any(silence.covers(row, now_us) for silence in state.silences)


def _notice(rules: Rules, entry: Entry, now_us: int) -> Notice:
    incident = entry.incident
    # The same incident has the same id over restarts; a repetition has one of its own.
    repeated = f":{now_us}" if incident.state == "firing" and entry.notified_at_us is not None else ""
    id = f"{rules.name}:{key_text(entry.key)}:{incident.since_us}:{incident.state}{repeated}"
    return Notice(id, incident.state, entry.key, incident, rules.targets)


def absent(
    state: AlertState, rules: Rules, events: int, absent_us: int, now_us: int, row: Mapping[str, Any]
) -> AlertState:
    """The state of an alert for absence, once its stream has had so many events."""
    since_us = state.seen_at_us
    if since_us is None or state.seen_events != events:
        since_us = now_us
        state = replace(state, seen_events=events, seen_at_us=now_us)
    is_absent = now_us - since_us >= absent_us
    text = key_text({})
    entry = state.open.get(text)
    if is_absent and entry is None:
        # It fires by the clock: the time of a stream stands still without events.
        state = replace(state, open={text: Entry({}, Incident("pending", since_us, now_us, row, 0, 0, windowed=False))})
    elif is_absent and entry is not None:
        incident = replace(entry.incident, until_us=now_us, row=row)
        state = replace(state, open={text: replace(entry, incident=incident)})
    elif entry is not None:
        incident = replace(entry.incident, state="resolved", reason="events come again")
        state = replace(state, open={text: replace(entry, incident=incident)})
    return note_time(state, replace(rules, for_us=0), Clock(now_us, now_us), now_us)
