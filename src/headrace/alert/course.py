"""Advances the state of an alert: its incidents by rows and by time, and the notices that follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.alert.incident import FOREVER_US, NEVER_US, Clock, Incident, Observation, State, observe
from headrace.alert.state import OPEN, AlertState, Entry, Notice, key_text
from headrace.serve.tiling import Windows

MOST_OPEN = 10_000  # incidents of one alert; further keys wait until some are over
MOST_ENDED = 1_000  # incidents, and as many periods that were too short: the newest; earlier windows count no more
CONDITION_ENDED = "the condition no longer holds"
WITHDRAWN = "the condition was not met: later events changed the rows"
EVENTS_ARRIVE = "events arrive again"

Rows = Iterable[tuple[Mapping[str, Any], Observation]]  # each with its key


@dataclass(frozen=True)
class Rules:
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

    def has_ended(self, until_us: int, clock: Clock) -> bool:
        """Whether a period is over: the window after it is settled without having met the condition."""
        return until_us < FOREVER_US and (self.windows is None or self.next_end_us(until_us) <= clock.settled_us)


def note_rows(state: AlertState, rules: Rules, rows: Rows, clock: Clock) -> AlertState:
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
            known = marks.pop(incident.since_us, None) or withdrawn.pop((text, incident.since_us), Entry(key, incident))
            kept.append(known if known.incident is incident else replace(known, incident=incident))
        # A notice that an incident fires is followed by one that it does not, also where there was none after all.
        withdrawn |= {(text, since_us): entry for since_us, entry in marks.items() if entry.notified == "firing"}
        keys[text] = tuple(kept)
    return _judge(replace(state, keys=keys, withdrawn=tuple(withdrawn.values())), rules, clock)


def _judge(state: AlertState, rules: Rules, clock: Clock) -> AlertState:
    """The state with each incident as it is at a time, and without what need not be remembered."""
    entries = [
        replace(entry, incident=_at(entry.incident, rules, clock)) for of_key in state.keys.values() for entry in of_key
    ]
    states = OPEN if rules.has_pending else ("firing",)
    open = [each for each in entries if each.incident.state in states]
    resolved = _newest(entries, "resolved")
    short = _newest(entries, "short") if rules.windows else []  # late events may join them
    forgotten = [each.incident.until_us for each in (*resolved[MOST_ENDED:], *short[MOST_ENDED:])]
    kept = [*sorted(open, key=_since)[:MOST_OPEN], *resolved[:MOST_ENDED], *short[:MOST_ENDED]]
    keys: dict[str, list[Entry]] = {}
    for entry in sorted(kept, key=_since):
        keys.setdefault(key_text(entry.key), []).append(entry)
    ids = {id(entry) for entry in kept}
    withdrawn = [each for each in entries if each.notified == "firing" and id(each) not in ids]
    return replace(
        state,
        keys={text: tuple(of_key) for text, of_key in keys.items()},
        withdrawn=(*state.withdrawn, *withdrawn),
        from_us=max(forgotten, default=state.from_us),  # it only grows: what ended before it is not looked at
    )


def _newest(entries: list[Entry], state: str) -> list[Entry]:
    return sorted((e for e in entries if e.incident.state == state), key=lambda e: e.incident.until_us, reverse=True)


def _since(entry: Entry) -> int:
    return entry.incident.since_us


def _at(incident: Incident, rules: Rules, clock: Clock) -> Incident:
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


def note_time(state: AlertState, rules: Rules, clock: Clock, now_us: int) -> AlertState:
    """The state once the time of the view is what `clock` says, with the notices that follow."""
    state = _judge(state, rules, clock)
    notices = list(state.notices)

    def notify(entry: Entry) -> Entry:
        for notified in _due(state, rules, entry, now_us):
            fired = entry.fired + (notified == "firing")
            entry = replace(entry, notified=notified, notified_at_us=now_us, fired=fired)
            if notified != "silenced" and rules.targets:
                notices.append(_notice(rules, entry))
        return entry

    keys = {text: tuple(map(notify, entries)) for text, entries in state.keys.items()}
    over = [entry for entry in state.withdrawn if rules.has_ended(entry.incident.since_us, clock)]
    for entry in over:
        state_of: State = "resolved" if entry.incident.state == "resolved" else "short"
        notify(replace(entry, incident=replace(entry.incident, state=state_of)))
    withdrawn = tuple(entry for entry in state.withdrawn if entry not in over)
    settled_us = max(clock.settled_us, state.settled_us or clock.settled_us)
    return replace(state, keys=keys, withdrawn=withdrawn, notices=tuple(notices), settled_us=settled_us)


def _due(state: AlertState, rules: Rules, entry: Entry, now_us: int) -> Iterator[str]:
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


def is_silenced(state: AlertState, entry: Entry, now_us: int) -> bool:
    """Whether notices about this incident are held back."""
    row = {**entry.incident.row, **entry.key}
    return any(silence.covers(row, now_us) for silence in state.silences)


def _notice(rules: Rules, entry: Entry) -> Notice:
    incident, state = entry.incident, entry.notified or ""
    if state == "firing":
        incident = replace(incident, state="firing", resolved_at_us=None, reason=None)
    elif incident.state == "short":
        incident = replace(incident, state="resolved", resolved_at_us=incident.until_us, reason=WITHDRAWN)
    # The same incident has the same id over restarts; a repetition, or one that fires again, has one of its own.
    again = f":{entry.fired}" if entry.fired > 1 else ""
    id = f"{rules.name}:{key_text(entry.key)}:{incident.since_us}:{state}{again}"
    return Notice(id, state, entry.key, incident, rules.targets)


def absent(
    state: AlertState, rules: Rules, events: int, absent_us: int, now_us: int, row: Mapping[str, Any]
) -> AlertState:
    """The state of an alert for absence, once its stream has had so many events. It goes by the clock."""
    rules = replace(rules, for_us=absent_us, ended=EVENTS_ARRIVE)
    since_us = state.seen_at_us
    if since_us is None or state.seen_events != events:
        since_us = now_us
        state = replace(state, seen_events=events, seen_at_us=now_us)
    is_absent = now_us - since_us >= absent_us
    clock = Clock(now_us, now_us)
    observation = Observation(row, is_absent, 0, 0, since_us, FOREVER_US)
    return note_time(note_rows(state, rules, [({}, observation)], clock), rules, clock, now_us)
