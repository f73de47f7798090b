"""What an alert remembers over restarts: its cursor, incidents, silences and undelivered notices, in one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

import orjson

from headrace.alert.incident import Incident
from headrace.disk import replace_file
from headrace.errors import CorruptionError

MOST_RESOLVED = 100  # resolved incidents that are kept, the newest


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
        """The notice that `asdict` gave."""
        parts = {"incident": Incident(**value["incident"]), "targets": tuple(value["targets"])}
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
    """The incident of one key. Keys and rows are JSON values, as notices show them."""

    key: Mapping[str, Any]
    incident: Incident
    notified_at_us: int | None = None  # when a notice that it fires was last written

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Self:
        """The entry that `asdict` gave."""
        return cls(value["key"], Incident(**value["incident"]), value["notified_at_us"])


def key_text(key: Mapping[str, Any]) -> str:
    """A key as a name."""
    return orjson.dumps(key, option=orjson.OPT_SORT_KEYS).decode()


@dataclass(frozen=True)
class AlertState:
    """All of it. It is replaced, never changed."""

    fingerprint: str = ""  # of the condition: with another one it starts over
    cursor: str | None = None
    open: Mapping[str, Entry] = field(default_factory=dict)  # by the text of the key
    resolved: tuple[Entry, ...] = ()  # newest first
    silences: tuple[Silence, ...] = ()
    notices: tuple[Notice, ...] = ()  # oldest first
    seen_events: int | None = None  # of an alert on absence: how many events its stream had
    seen_at_us: int | None = None  # and when it got the last one

    def with_resolved(self, entries: tuple[Entry, ...]) -> AlertState:
        """The state once these are over."""
        return replace(self, resolved=(*entries, *self.resolved)[:MOST_RESOLVED])


def state_file(folder: Path, name: str) -> Path:
    """Where the state of an alert is kept."""
    return folder / f"{name}.json"


def read_state(file: Path) -> AlertState:
    """The state of an alert; that of a new one if there is no file."""
    try:
        value = orjson.loads(file.read_bytes())
        known = {each.name for each in fields(AlertState)}
        return AlertState(
            **{
                **{name: part for name, part in value.items() if name in known},
                "open": {name: Entry.read(entry) for name, entry in value["open"].items()},
                "resolved": tuple(map(Entry.read, value["resolved"])),
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


def write_state(file: Path, state: AlertState) -> None:
    """Make this the state."""
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, orjson.dumps(asdict(state)), "the state of an alert was not recorded")
