"""What an alert remembers over restarts: its cursor, incidents, silences and undelivered notices, in one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import orjson

from headrace.alert.incident import FOREVER_US, Incident
from headrace.disk import replace_file
from headrace.errors import CorruptionError
from headrace.names import encode_name

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
class Silence:
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
class Entry:
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
    keys: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)  # by the text of the key, the oldest first
    withdrawn: tuple[Entry, ...] = ()  # of which a notice said that they fire, and that are none by the present rows
    silences: tuple[Silence, ...] = ()
    notices: tuple[Notice, ...] = ()  # oldest first
    written: int = 0  # how many notices were written so far
    seen_events: int | None = None  # of an alert on absence: how many events its stream had
    seen_at_us: int | None = None  # and when it got the last one

    @property
    def entries(self) -> list[Entry]:
        """All that is remembered of periods."""
        return [entry for entries in self.keys.values() for entry in entries]

    @property
    def open(self) -> list[Entry]:
        """The incidents that are pending or firing."""
        return [entry for entry in self.entries if entry.incident.state in OPEN]

    @property
    def resolved(self) -> list[Entry]:
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
                "withdrawn": tuple(map(Entry.read, value.get("withdrawn", ()))),
                "silences": tuple(Silence(**silence) for silence in value["silences"]),
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


def _read_keys(value: Mapping[str, Any]) -> dict[str, tuple[Entry, ...]]:
    """The incidents by key. An older Headrace wrote those that were open and those that were resolved."""
    if "keys" in value:
        return {name: tuple(map(Entry.read, entries)) for name, entries in value["keys"].items()}
    keys: dict[str, tuple[Entry, ...]] = {}
    entries = map(Entry.read, (*value["open"].values(), *value["resolved"]))
    for entry in sorted(entries, key=lambda entry: entry.incident.since_us):
        name = key_text(entry.key)
        keys[name] = (*keys.get(name, ()), entry)
    return keys


def write_state(file: Path, state: AlertState) -> None:
    """Make this the state."""
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, orjson.dumps(state), "the state of an alert was not recorded")
