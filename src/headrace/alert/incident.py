"""The course of an alert for one key: pending, firing, resolved. Pure: rows and times in, incidents out.

Time is the view's event time, so an alert says the same whenever its events are processed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

State = Literal["pending", "firing", "resolved"]


@dataclass(frozen=True)
class Clock:
    """The time of the view: that of its newest event, and the time up to which its rows are settled."""

    time_us: int
    settled_us: int


@dataclass(frozen=True)
class Observation:
    """A row of the view, and whether it meets the condition.

    `[start_us, end_us)` is the event time that it speaks for: what its window adds to the window before it.
    A view without windows has neither: its row speaks for the present.
    """

    row: Mapping[str, Any]
    matches: bool
    settled: bool
    version: int
    commit: int
    start_us: int | None = None
    end_us: int | None = None


@dataclass(frozen=True)
class Incident:
    """The condition holds for event time [since_us, until_us) of one key, as far as rows tell."""

    state: State
    since_us: int
    until_us: int
    row: Mapping[str, Any]  # the last one that met the condition
    version: int
    commit: int
    windowed: bool
    fired_at_us: int | None = None  # wall time
    resolved_at_us: int | None = None
    reason: str | None = None  # why it was resolved
    observed: int = 0  # where the newest row of the key begins, whether it met the condition or not


def observe(incident: Incident | None, observation: Observation, clock: Clock) -> Incident | None:
    """The incident after a row of its key has changed; None: there is none.

    A provisional row may begin an incident, but only a settled one ends it: the first events of a window
    say little about it. Rows of windows before the newest one of the key change nothing.
    """
    if observation.start_us is None or observation.end_us is None:
        return _observe_present(incident, observation, clock)
    if incident is not None and observation.start_us < incident.observed:
        return incident
    if observation.matches:
        return _extend(incident, observation, observation.start_us, observation.end_us, windowed=True)
    if incident is None:
        return None
    if observation.settled:
        return _end(incident, "the condition no longer holds")
    # The window that met the condition does not any more: it counts again if it will.
    incident = replace(incident, observed=observation.start_us, until_us=min(incident.until_us, observation.start_us))
    return None if incident.state == "pending" and incident.until_us <= incident.since_us else incident


def advance(incident: Incident, clock: Clock, for_us: int, slide_us: int, now_us: int) -> Incident | None:
    """The incident once the time of the view is what `clock` says; None: it is over without having fired.

    It also ends where the window after its last row was settled without a row of the key.
    """
    if incident.state != "resolved" and incident.windowed and incident.until_us + slide_us <= clock.settled_us:
        ended = _end(incident, "no newer row of the key")
        if ended is None:
            return None
        incident = ended
    if incident.state == "resolved":
        return incident if incident.resolved_at_us is not None else replace(incident, resolved_at_us=now_us)
    if not incident.windowed:
        incident = replace(incident, until_us=max(incident.until_us, clock.time_us))
    known_us = min(incident.until_us, clock.time_us)
    if incident.state == "pending" and (not for_us or known_us - incident.since_us >= for_us):
        incident = replace(incident, state="firing", fired_at_us=now_us)
    return incident


def _observe_present(incident: Incident | None, observation: Observation, clock: Clock) -> Incident | None:
    if observation.matches:
        return _extend(incident, observation, clock.time_us, clock.time_us, windowed=False)
    return _end(incident, "the condition no longer holds") if incident else None


def _extend(
    incident: Incident | None, observation: Observation, start_us: int, end_us: int, *, windowed: bool
) -> Incident:
    is_gap = incident is not None and windowed and start_us > incident.until_us
    if incident is None or (is_gap and incident.state == "pending"):
        incident = Incident(
            "pending", start_us, end_us, observation.row, observation.version, observation.commit, windowed
        )
    return replace(
        incident,
        until_us=max(incident.until_us, end_us),
        row=observation.row,
        version=observation.version,
        commit=observation.commit,
        observed=max(incident.observed, start_us),
    )


def _end(incident: Incident, reason: str) -> Incident | None:
    """A pending incident is forgotten, a firing one is resolved."""
    return None if incident.state == "pending" else replace(incident, state="resolved", reason=reason)
