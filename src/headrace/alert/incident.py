"""The periods of event time for which one key of an alert meets its condition. Pure: windows in, periods out.

A period is what consecutive windows that meet the condition cover together, so periods are a function of the rows that
the view has: in which order, in how many commits and how often the alert has seen them makes no difference.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

State = Literal["pending", "firing", "resolved", "short"]  # short: it ended before it could fire
Periods = tuple["Incident", ...]  # of one key: apart from each other, the oldest first
NEVER_US, FOREVER_US = -(1 << 62), 1 << 62  # before all times; the end of a period that lasts until something ends it


@dataclass(frozen=True)
class Clock:
    """The time of the view: that of its newest event, and the time up to which its rows are settled."""

    time_us: int
    settled_us: int


@dataclass(frozen=True)
class Observation:
    """A row of the view, and whether it meets the condition.

    `[start_us, end_us)` is the event time that it speaks for: what its window adds to the window before it.
    """

    row: Mapping[str, Any]
    matches: bool
    version: int
    commit: int
    start_us: int
    end_us: int


@dataclass(frozen=True)
class Incident:
    """The condition holds for event time [since_us, until_us) of one key."""

    since_us: int
    until_us: int
    row: Mapping[str, Any]  # the one of its last window, as it was seen last
    row_end_us: int  # where that window ends
    version: int
    commit: int
    state: State = "pending"
    fired_at_us: int | None = None
    resolved_at_us: int | None = None
    reason: str | None = None  # why it was resolved


def observe(periods: Periods, observation: Observation) -> Periods:
    """The periods of a key once a row of it is as observed: its window is added to them, or taken out of them."""
    return (
        _with(periods, observation)
        if observation.matches
        else _without(periods, observation.start_us, observation.end_us)
    )


def _with(periods: Periods, observation: Observation) -> Periods:
    first = bisect_left(periods, observation.start_us, key=lambda period: period.until_us)
    last = bisect_right(periods, observation.end_us, key=lambda period: period.since_us)
    joined = periods[first:last]  # those that it overlaps or touches
    new = Incident(
        observation.start_us,
        observation.end_us,
        observation.row,
        observation.end_us,
        observation.version,
        observation.commit,
    )
    latest = max((new, *joined), key=lambda period: period.row_end_us)  # of equal ones the new row
    period = replace(
        latest,
        since_us=min(each.since_us for each in (new, *joined)),
        until_us=max(each.until_us for each in (new, *joined)),
    )
    return (*periods[:first], period, *periods[last:])


def _without(periods: Periods, start_us: int, end_us: int) -> Periods:
    first = bisect_right(periods, start_us, key=lambda period: period.until_us)
    last = bisect_left(periods, end_us, key=lambda period: period.since_us)
    if first >= last:
        return periods
    before = [replace(each, until_us=start_us) for each in periods[first:last] if each.since_us < start_us]
    after = [replace(each, since_us=end_us) for each in periods[first:last] if each.until_us > end_us]
    return (*periods[:first], *before, *after, *periods[last:])
