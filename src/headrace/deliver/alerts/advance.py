"""Advances the state of an alert: its incidents by rows and by time, and the notices that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from headrace.deliver.alerts.alert_state import (
    FOREVER_US,
    NEVER_US,
    OPEN,
    AlertState,
    Incident,
    IncidentEntry,
    Notice,
    Observation,
    Periods,
    State,
    ViewClock,
    key_text,
    observe,
)
from headrace.serve.windows import Windows

MOST_OPEN = 10_000  # incidents of one alert; further keys wait until some are over
MOST_ENDED = 1_000  # incidents that are over, of which notices were written: the newest
MOST_SHORT = 5_000  # periods that were too short: the newest; those before are made again of the rows of the view
FIRST_US, LAST_US = -62_100_000_000_000_000, 253_300_000_000_000_000  # in the years 2 and 9996
AROUND_WINDOWS = 8  # times the time of late rows: how far on both sides of them rows are read at first
CONDITION_ENDED = "the condition no longer holds"
WITHDRAWN = "the condition was not met: later events changed the rows"
EVENTS_ARRIVE = "events arrive again"

Rows = Iterable[tuple[Mapping[str, Any], Observation]]  # each with its key


@dataclass(frozen=True)
class AlertRules:
    """What the definition of an alert says about the course of its incidents."""

    name: str
    for_us: int = 0
    windows: Windows | None = None  # that follow one another; None: a period lasts until something ends it
    on_close: bool = False  # a window counts when it is settled, as a whole; else as far as time has come
    repeat_us: int | None = None  # how often a notice is repeated while the alert fires
    targets: tuple[str, ...] = ()
    ended: str = CONDITION_ENDED  # why an incident is resolved
    has_pending: bool = True  # whether what may fire later is an incident

    def next_end_us(self, us: int) -> int:
        """The end of the first window that ends after a time."""
        if self.windows is None:
            return us
        return self.windows.bounds(self.windows.first_ending_after(us // 1000))[1] * 1000

    @property
    def has_sessions(self) -> bool:
        """Whether each row is a session: a period of its own, since events that come at its end belong to it."""
        return self.windows is not None and self.windows.session

    def has_ended(self, until_us: int, clock: ViewClock) -> bool:
        """Whether a period is over: the window after it is settled without having met the condition."""
        if self.has_sessions:
            return until_us < clock.settled_us
        return until_us < FOREVER_US and (self.windows is None or self.next_end_us(until_us) <= clock.settled_us)


def note_rows(state: AlertState, rules: AlertRules, rows: Rows, clock: ViewClock) -> AlertState:
    """The state after rows have changed. Windows that end by `from_us` are history."""
    keys, from_us = dict(state.keys), NEVER_US if state.from_us is None else state.from_us
    withdrawn = {(key_text(entry.key), entry.incident.since_us): entry for entry in state.withdrawn}
    for key, observation in rows:
        text = key_text(key)
        entries = keys.get(text, ())
        if observation.end_us <= from_us or not (entries or observation.matches):
            continue
        periods = tuple(entry.incident for entry in entries)
        changed = observe(periods, observation)
        if changed is periods:
            continue
        marks = {entry.incident.since_us: entry for entry in entries}
        kept = []
        for incident in changed:
            known = marks.pop(incident.since_us, None) or withdrawn.pop(
                (text, incident.since_us), IncidentEntry(key, incident)
            )
            kept.append(known if known.incident is incident else replace(known, incident=incident))
        # A notice that an incident fires is followed by one that it does not, also where there was none after all.
        withdrawn |= {(text, since_us): entry for since_us, entry in marks.items() if entry.notified == "firing"}
        keys[text] = tuple(kept)
    return _judge(replace(state, keys=keys, withdrawn=tuple(withdrawn.values())), rules, clock)


def _judge(state: AlertState, rules: AlertRules, clock: ViewClock) -> AlertState:
    """The state with each incident as it is at a time, and without what need not be remembered."""
    entries = [replace(entry, incident=_at(entry.incident, rules, clock)) for entry in state.entries]
    return _forget(state, rules, entries)


def _forget(state: AlertState, rules: AlertRules, entries: Sequence[IncidentEntry]) -> AlertState:
    """The state with those of its entries that must be remembered: late events in others read the rows around them."""
    states = OPEN if rules.has_pending else ("firing",)
    open = [each for each in entries if each.incident.state in states]
    new = [each for each in entries if each.incident.state == "resolved" and each.notified is None]
    resolved = _newest(each for each in entries if each.incident.state == "resolved" and each.notified)
    short = _newest(each for each in entries if each.incident.state == "short" and rules.windows)
    forgotten = [each.incident.until_us for each in (*resolved[MOST_ENDED:], *short[MOST_SHORT:])]
    kept = [*sorted(open, key=_since)[:MOST_OPEN], *_newest(new)[:MOST_OPEN]]
    kept += [*resolved[:MOST_ENDED], *short[:MOST_SHORT]]
    keys: dict[str, list[IncidentEntry]] = {}
    for entry in sorted(kept, key=_since):
        keys.setdefault(key_text(entry.key), []).append(entry)
    ids = {id(entry) for entry in kept}
    withdrawn = [each for each in entries if each.notified == "firing" and id(each) not in ids]
    return replace(
        state,
        keys={text: tuple(of_key) for text, of_key in keys.items()},
        withdrawn=(*state.withdrawn, *withdrawn),
        forgotten_us=max((each for each in (*forgotten, state.forgotten_us) if each is not None), default=None),
    )


def _newest(entries: Iterable[IncidentEntry]) -> list[IncidentEntry]:
    return sorted(entries, key=lambda entry: entry.incident.until_us, reverse=True)


def _since(entry: IncidentEntry) -> int:
    return entry.incident.since_us


def rows_around(
    rules: AlertRules, start_us: int, end_us: int, rows_between: Callable[[int, int], list[Observation]]
) -> list[Observation]:
    """The rows of all periods of a key that are within a time, or reach into it.

    `rows_between` gives the rows whose windows end in (start, end], as far as windows have begun.
    """
    reach_us = AROUND_WINDOWS * (end_us - start_us)
    while True:
        from_us, to_us = max(FIRST_US, start_us - reach_us), min(LAST_US, end_us + reach_us)
        rows = [row for row in rows_between(from_us, to_us) if row.matches]
        periods: Periods = reduce(observe, rows, ())
        joined = [each for each in periods if each.since_us <= end_us and start_us <= each.until_us]
        first_us = min((each.since_us for each in joined), default=start_us)
        last_us = max((each.until_us for each in joined), default=end_us)
        # The window before the first one was read, and so was the one after the last.
        is_first, is_last = from_us == FIRST_US, to_us == LAST_US
        if (is_first or first_us > from_us) and (is_last or rules.next_end_us(last_us) <= to_us):
            return [row for row in rows if first_us <= row.start_us and row.end_us <= last_us]
        reach_us *= 2


def _at(incident: Incident, rules: AlertRules, clock: ViewClock) -> Incident:
    """The incident at a time."""
    known_us = incident.until_us if rules.on_close else min(incident.until_us, clock.time_us)
    fires = known_us >= incident.since_us + rules.for_us
    ended = rules.has_ended(incident.until_us, clock)
    return replace(
        incident,
        state=("resolved" if fires else "short") if ended else ("firing" if fires else "pending"),
        fired_at_us=incident.since_us + rules.for_us if fires else None,
        resolved_at_us=incident.until_us if fires and ended else None,
        reason=rules.ended if fires and ended else None,
    )


def note_time(state: AlertState, rules: AlertRules, clock: ViewClock, now_us: int) -> AlertState:
    """The state once the time of the view is what `clock` says, with the notices that follow."""
    state = _judge(state, rules, clock)
    new: list[Notice] = []

    def notify(entry: IncidentEntry) -> IncidentEntry:
        for notified in _due(state, rules, entry, now_us):
            entry = replace(entry, notified=notified, notified_at_us=now_us)
            if notified != "silenced" and rules.targets:
                new.append(_notice(rules, entry, state.written + len(new)))
        return entry

    keys = {text: tuple(map(notify, entries)) for text, entries in state.keys.items()}
    over = [entry for entry in state.withdrawn if rules.has_ended(_settles_us(rules, entry.incident), clock)]
    for entry in over:
        state_of: State = "resolved" if entry.incident.state == "resolved" else "short"
        notify(replace(entry, incident=replace(entry.incident, state=state_of)))
    withdrawn = tuple(entry for entry in state.withdrawn if entry not in over)
    settled_us = max(clock.settled_us, state.settled_us or clock.settled_us)
    notices, written = (*state.notices, *new), state.written + len(new)
    state = replace(state, keys=keys, withdrawn=withdrawn, notices=notices, written=written, settled_us=settled_us)
    return _forget(state, rules, state.entries)


def _settles_us(rules: AlertRules, incident: Incident) -> int:
    """The time of the row that decides whether an incident that was withdrawn comes back."""
    return incident.until_us if rules.has_sessions else incident.since_us


def _due(state: AlertState, rules: AlertRules, entry: IncidentEntry, now_us: int) -> Iterator[str]:
    """What the recipients of an incident are to be told of it now, one after the other."""
    known, is_now = entry.notified, entry.incident.state
    silenced = is_silenced(state, entry, now_us)
    if is_now == "firing" or (is_now == "resolved" and known is None):
        repeats = known == "firing" and rules.repeat_us is not None
        is_due = known != "firing" or (repeats and now_us - (entry.notified_at_us or 0) >= (rules.repeat_us or 0))
        if is_due and silenced:
            yield from () if known else ("silenced",)
            return
        if is_due:
            known = "firing"
            yield known
    if is_now in ("resolved", "short") and known == "firing":
        yield "resolved"


def is_silenced(state: AlertState, entry: IncidentEntry, now_us: int) -> bool:
    """Whether notices about this incident are held back."""
    row = {**entry.incident.row, **entry.key}
    return any(silence.covers(row, now_us) for silence in state.silences)


def _notice(rules: AlertRules, entry: IncidentEntry, number: int) -> Notice:
    incident, state = entry.incident, entry.notified or ""
    if state == "firing":
        incident = replace(incident, state="firing", resolved_at_us=None, reason=None)
    elif incident.state == "short":
        incident = replace(incident, state="resolved", resolved_at_us=incident.until_us, reason=WITHDRAWN)
    # Written with the state, so it is the same over restarts. A repetition has one of its own, and so has an incident
    # that fires again after later rows had taken it back.
    id = f"{rules.name}:{key_text(entry.key)}:{incident.since_us}:{state}:{number}"
    return Notice(id, state, entry.key, incident, rules.targets)


def absent(
    state: AlertState, rules: AlertRules, events: int, absent_us: int, now_us: int, row: Mapping[str, Any]
) -> AlertState:
    """The state of an alert for absence, once its stream has had so many events. It goes by the clock."""
    rules = replace(rules, for_us=absent_us, ended=EVENTS_ARRIVE)
    since_us = state.seen_at_us
    if since_us is None or state.seen_events != events:
        since_us = now_us
        state = replace(state, seen_events=events, seen_at_us=now_us)
    is_absent = now_us - since_us >= absent_us
    clock = ViewClock(now_us, now_us)
    observation = Observation(row, is_absent, 0, 0, since_us, FOREVER_US)
    return note_time(note_rows(state, rules, [({}, observation)], clock), rules, clock, now_us)
