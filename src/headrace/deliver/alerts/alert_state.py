"""The state of an alert over restarts, in one file: its cursor, incidents by key, silences and undelivered notices."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

import orjson

from headrace.disk import replace_file
from headrace.errors import CorruptionError
from headrace.name_encoding import encode_name

State = Literal["pending", "firing", "resolved", "short"]  # short: it ended before it could fire
Periods = tuple["Incident", ...]  # of one key: apart from each other, the oldest first
NEVER_US, FOREVER_US = -(1 << 62), 1 << 62  # before all times; the end of a period that lasts until something ends it


@dataclass(frozen=True)
class ViewClock:
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


OPEN = ("pending", "firing")


@dataclass(frozen=True)
class Notice:
    """One message to the targets of an alert. Those that got it twice know it by its id."""

    id: str
    state: str  # firing, resolved
    key: Mapping[str, Any]
    incident: Incident
    targets: tuple[str, ...]  # those that have not got it yet

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Self:
        """The notice that `write_state` wrote."""
        parts = {"incident": _read_incident(value["incident"]), "targets": tuple(value["targets"])}
        return cls(**{**value, **parts})


@dataclass(frozen=True)
class AlertSilence:
    """No notices for a time, about rows with these values; without values, about all."""

    id: str
    values: Mapping[str, Any]
    until_us: int
    reason: str = ""

    def covers(self, row: Mapping[str, Any], now_us: int) -> bool:
        """Whether it holds back a notice about this row."""
        return now_us < self.until_us and all(_same(row.get(name), value) for name, value in self.values.items())


def _same(value: Any, expected: Any) -> bool:
    """Whether a value of a row is one that a person gave, perhaps as text."""
    return value == expected or (isinstance(expected, str) and value is not None and str(value) == expected)


@dataclass(frozen=True)
class IncidentEntry:
    """An incident of one key. Keys and rows are JSON values, as notices show them."""

    key: Mapping[str, Any]
    incident: Incident
    notified_at_us: int | None = None  # wall time
    notified: str | None = None  # what was done last: firing, resolved: a notice was written; silenced: none

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Self:
        """The entry that `write_state` wrote, or an older Headrace."""
        incident = _read_incident(value["incident"])
        is_known = value["notified_at_us"] is not None or incident.state == "resolved"
        notified = incident.state if is_known else None
        return cls(value["key"], incident, value["notified_at_us"], value.get("notified", notified))


def _read_incident(value: Mapping[str, Any]) -> Incident:
    """The incident that `write_state` wrote. An older Headrace wrote no end where there is none yet."""
    known = {each.name for each in fields(Incident)}
    parts = {name: part for name, part in value.items() if name in known}
    if value.get("windowed") is False and value["state"] != "resolved":
        parts["until_us"] = FOREVER_US
    return Incident(**{"row_end_us": parts["until_us"], **parts})


def key_text(key: Mapping[str, Any]) -> str:
    """A key as a name."""
    return orjson.dumps(key, option=orjson.OPT_SORT_KEYS).decode()


@dataclass(frozen=True)
class AlertState:
    """All of it. It is replaced, never changed."""

    fingerprint: str = ""  # of the condition: with another one it starts over
    cursor: str | None = None
    from_us: int | None = None  # windows that end by then are history; None before the alert has begun to watch
    forgotten_us: int | None = None  # periods that ended by then may be missing: rows beside them are read again
    settled_us: int | None = None  # windows that end by then were settled when it looked last
    keys: Mapping[str, tuple[IncidentEntry, ...]] = field(
        default_factory=dict
    )  # by the text of the key, the oldest first
    withdrawn: tuple[
        IncidentEntry, ...
    ] = ()  # of which a notice said that they fire, and that are none by the present rows
    silences: tuple[AlertSilence, ...] = ()
    notices: tuple[Notice, ...] = ()  # oldest first
    written: int = 0  # how many notices were written so far
    seen_events: int | None = None  # of an alert on absence: how many events its stream had
    seen_at_us: int | None = None  # and when it got the last one

    @property
    def entries(self) -> list[IncidentEntry]:
        """All that is remembered of periods."""
        return [entry for entries in self.keys.values() for entry in entries]

    @property
    def open(self) -> list[IncidentEntry]:
        """The incidents that are pending or firing."""
        return [entry for entry in self.entries if entry.incident.state in OPEN]

    @property
    def resolved(self) -> list[IncidentEntry]:
        """The incidents that are over, the newest first."""
        over = [entry for entry in self.entries if entry.incident.state == "resolved"]
        return sorted(over, key=lambda entry: (entry.incident.until_us, entry.incident.since_us), reverse=True)


def state_file(folder: Path, name: str) -> Path:
    """Where the state of an alert is kept."""
    return folder / f"{encode_name(name)}.json"


def read_state(file: Path) -> AlertState:
    """The state of an alert; that of a new one if there is no file."""
    try:
        value = orjson.loads(file.read_bytes())
        known = {each.name for each in fields(AlertState)}
        return AlertState(
            **{
                **{name: part for name, part in value.items() if name in known},
                "keys": _read_keys(value),
                "withdrawn": tuple(map(IncidentEntry.read, value.get("withdrawn", ()))),
                "silences": tuple(AlertSilence(**silence) for silence in value["silences"]),
                "notices": tuple(map(Notice.read, value["notices"])),
            }
        )
    except FileNotFoundError:
        return AlertState()
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(
            f"the state of an alert '{file}' cannot be read: {error}",
            fix="move it away: the alert then starts over, without its silences",
        ) from error


def _read_keys(value: Mapping[str, Any]) -> dict[str, tuple[IncidentEntry, ...]]:
    """The incidents by key. An older Headrace wrote those that were open and those that were resolved."""
    if "keys" in value:
        return {name: tuple(map(IncidentEntry.read, entries)) for name, entries in value["keys"].items()}
    keys: dict[str, tuple[IncidentEntry, ...]] = {}
    entries = map(IncidentEntry.read, (*value["open"].values(), *value["resolved"]))
    for entry in sorted(entries, key=lambda entry: entry.incident.since_us):
        name = key_text(entry.key)
        keys[name] = (*keys.get(name, ()), entry)
    return keys


def write_state(file: Path, state: AlertState) -> None:
    """Make this the state."""
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, orjson.dumps(state), "the state of an alert was not recorded")
