"""The events behind a cell, with late events and corrections marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from headrace.language.token_cursor import parse_type
from headrace.format import iso
from headrace.serve.answer import Answer
from headrace.serve.values import decoder, encoder
from headrace.types import TIMESTAMP, Type

if TYPE_CHECKING:
    from headrace.aggregate import Value

US = timedelta(microseconds=1)


@dataclass(frozen=True)
class JoinedRow:
    """What an event met in a table that it was joined to; values as in JSON."""

    table: str
    key: Mapping[str, Any]
    row: Mapping[str, Any] | None  # the columns that the join reads; None: the table had no row that matches

    def __str__(self) -> str:
        key = ", ".join(f"{name}={_shown(value)}" for name, value in self.key.items())
        others = {name: value for name, value in (self.row or {}).items() if name not in self.key}
        row = ", ".join(f"{name}={_shown(value)}" for name, value in others.items()) if self.row else "no row"
        return f"{self.table} {key}" + (f": {row}" if row else "")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


@dataclass(frozen=True)
class ExplainedEvent:
    """One event behind a cell, with its contribution."""

    position: int
    commit: int
    arrived: datetime
    event_time: datetime
    delay_ms: int  # arrival minus event time
    behind_ms: int  # how far it was behind the newest event at its arrival; 0 if it was not
    late: bool  # an earlier commit has a newer event; `behind_ms` says by how much
    correction: bool  # its pane was settled at its arrival
    in_view: bool  # the view has it already
    value: str  # the event as received; bytes that are not UTF-8 are escaped
    bytes: int  # size of the event; `value` is cut if it is large
    whole: bool  # whether `value` is complete
    arguments: Mapping[str, Value]  # per column, the aggregate's input; without columns whose FILTER excludes it
    stream: str | None = None  # the base stream that it came by, of a view that reads several
    joined: list[JoinedRow] = field(default_factory=list)  # what it met in each table, in the order of the joins


@dataclass(frozen=True)
class Explanation:
    """A cell of a view and a page of the events behind it, in order of arrival; of each base stream in turn.

    Of a view over a derived stream, each row that was made of an event is shown as that event.
    """

    cell: Answer  # the answer for this cell: one row, or none
    key: Mapping[str, Value]
    window_start: datetime | None
    window_end: datetime | None
    found: int  # events of the log that belong to the cell
    found_in_view: int  # those in commits that the view has applied
    late: int
    corrections: int
    commits: int  # number of commits read
    agrees: bool  # the view counts exactly the events found in its commits
    note: str | None  # a remark about these numbers
    nearest: tuple[datetime, ...]  # if there are no events: starts of the nearest windows with events
    events: list[ExplainedEvent]
    columns: tuple[tuple[str, Type], ...]  # of arguments
    keys: tuple[tuple[str, Type], ...]
    next_cursor: int | str | None
    took_ms: int

    @property
    def on_time(self) -> int:
        """The events that were not late."""
        return self.found - self.late

    def as_dict(self) -> dict[str, Any]:
        """As HTTP and `--json` show it; `from_dict` is the inverse."""
        keys, columns = dict(self.keys), dict(self.columns)
        attributes: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            **attributes,
            "cell": self.cell.as_dict(),
            "key": _encode(self.key, keys),
            "window_start": _iso(self.window_start),
            "window_end": _iso(self.window_end),
            "nearest": [iso(time) for time in self.nearest],
            "events": [
                {
                    **{f.name: getattr(event, f.name) for f in fields(event)},
                    "arrived": iso(event.arrived),
                    "event_time": iso(event.event_time),
                    "arguments": _encode(event.arguments, columns),
                    "joined": [asdict(each) for each in event.joined],
                }
                for event in self.events
            ],
            "columns": _column_list(self.columns),
            "keys": _column_list(self.keys),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Explanation:
        """The explanation from the output of `as_dict`."""
        keys, columns = _types(content["keys"]), _types(content["columns"])
        events = [
            replace(
                ExplainedEvent(**event),
                arrived=_time(event["arrived"]),
                event_time=_time(event["event_time"]),
                arguments=_decode(event["arguments"], dict(columns)),
                joined=[JoinedRow(**each) for each in event["joined"]],
            )
            for event in content["events"]
        ]
        start, end = content["window_start"], content["window_end"]
        values = {
            "cell": Answer.from_dict(content["cell"]),
            "key": _decode(content["key"], dict(keys)),
            "window_start": _time(start) if start else None,
            "window_end": _time(end) if end else None,
            "nearest": tuple(_time(text) for text in content["nearest"]),
            "events": events,
            "columns": columns,
            "keys": keys,
        }
        return cls(**{**content, **values})


def _iso(time: datetime | None) -> str | None:
    return iso(time) if time else None


def _time(text: str) -> datetime:
    decode = decoder(TIMESTAMP)
    assert decode is not None, "times are text in JSON"
    time: datetime = decode(text)
    return time


def _column_list(columns: tuple[tuple[str, Type], ...]) -> list[dict[str, str]]:
    return [{"name": name, "type": str(of)} for name, of in columns]


def _types(columns: list[dict[str, str]]) -> tuple[tuple[str, Type], ...]:
    return tuple((column["name"], parse_type(column["type"])) for column in columns)


def _encode(values: Mapping[str, Value], types: Mapping[str, Type]) -> dict[str, Any]:
    coders = {name: encoder(types[name]) for name in values}
    return {name: _apply(coders[name], value) for name, value in values.items()}


def _decode(values: Mapping[str, Any], types: Mapping[str, Type]) -> dict[str, Value]:
    coders = {name: decoder(types[name]) for name in values}
    return {name: _apply(coders[name], value) for name, value in values.items()}


def _apply(convert: Any, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)
