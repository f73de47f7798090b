"""Which cell of a view is to be explained, and the events behind it, with late events and corrections marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from headrace.errors import QuestionError, did_you_mean
from headrace.format import EPOCH, iso
from headrace.language.calendar import Calendar, find_zone
from headrace.language.token_cursor import parse_type
from headrace.serve.answer import Answer
from headrace.serve.json_values import decoder, encoder
from headrace.serve.question import key_text, read_key
from headrace.serve.question_times import (
    MS,
    TIMES,
    Bound,
    iso_ms,
    parse_bound,
    parse_calendar,
    parse_instant,
    parse_span,
    parse_zone,
)
from headrace.types import TIMESTAMP, Type

if TYPE_CHECKING:
    from headrace.aggregate import Value


DEFAULT_LIMIT, HIGHEST_LIMIT = 50, 1_000
PARAMETERS = ("at", "window", "every", "zone", "limit", "cursor")
LAST_POSITION = (1 << 63) - 1


@dataclass(frozen=True)
class CellQuestion:
    """Which events are behind a cell.

    - `key`: a value of each key of the view (None is NULL).
    - `at`: a time within the window; where windows overlap, it is the last of them that holds this time, so the start
      of a window means that window. A view without window takes none.
    - `window`, `every`, `zone`: as in a question; without them, the windows that the view declares.
    - `cursor`: the position behind which the page begins; of a view that reads several streams, after the name of one.
    """

    view: str
    key: Mapping[str, Value] = field(default_factory=dict)
    at: Bound | None = None
    window_ms: int | None = None
    every_ms: int | None = None
    limit: int = DEFAULT_LIMIT
    cursor: int | str | None = None
    calendar: Calendar | None = None
    zone: str | None = None

    @classmethod
    def of(
        cls,
        view: str,
        key: Mapping[str, Any] | None = None,
        at: Any = None,
        window: Any = None,
        every: Any = None,
        limit: Any = None,
        cursor: Any = None,
        zone: str | None = None,
    ) -> CellQuestion:
        """From Python values, or text in their place."""
        zone = parse_zone(zone)
        calendar = parse_calendar(window, zone)
        return cls(
            view=view,
            key=dict(key or {}),
            at=_parse_at(at, zone),
            window_ms=None if calendar else parse_span("window", window),
            every_ms=parse_span("every", every),
            limit=_number("limit", limit, 1, HIGHEST_LIMIT, "take the rest with next_cursor") or DEFAULT_LIMIT,
            cursor=_cursor(cursor),
            calendar=calendar,
            zone=zone,
        )

    @classmethod
    def from_text(cls, view: str, parameters: Iterable[tuple[str, str]]) -> CellQuestion:
        r"""From the parameters of a URL or the options of a command; `key.page=\N` is NULL, as in a question."""
        key: dict[str, str | None] = {}
        options: dict[str, str] = {}
        for name, text in parameters:
            is_key = name.startswith("key.")
            if not is_key and name not in PARAMETERS:
                raise QuestionError(
                    f"explain has no parameter '{name}'",
                    expected=", ".join(("key.<name>", *PARAMETERS)),
                    fix=did_you_mean(name, PARAMETERS) or f"to name a key write key.{name}=",
                )
            if name.removeprefix("key.") in key if is_key else name in options:
                raise QuestionError(f"'{name}' is given twice", fix="a cell has one value of each key; give it once")
            if is_key:
                key[name.removeprefix("key.")] = read_key(text)
            else:
                options[name] = text
        return cls.of(view, key, **options)

    def parameters(self) -> list[tuple[str, str]]:
        """The text that `from_text` reads back, for a URL."""
        options = {
            "at": _at_text(self.at) if self.at else None,
            "window": str(self.calendar) if self.calendar else self.window_ms and f"{self.window_ms}ms",
            "zone": self.calendar.zone if self.calendar else self.zone,
            "every": self.every_ms and f"{self.every_ms}ms",
            "limit": str(self.limit),
            "cursor": None if self.cursor is None else str(self.cursor),
        }
        keys = [(f"key.{name}", key_text(value)) for name, value in self.key.items()]
        return [*keys, *((name, text) for name, text in options.items() if text)]


def _parse_at(value: Any, zone: str | None) -> Bound | None:
    """Any time, to the microsecond; it need not be a pane start."""
    local = find_zone(zone) if zone else UTC
    time = parse_instant(value, local) if isinstance(value, str) and not value.strip().isdigit() else value
    if isinstance(time, datetime):
        whole = time.replace(tzinfo=local) if time.tzinfo is None else time
        return Bound((whole.astimezone(UTC) - EPOCH) // MS)
    bound = parse_bound("at", value, zone)
    if bound is not None and bound.relative and bound.ms > 0:
        raise QuestionError("at lies after the newest event", found=repr(value), expected=TIMES)
    return bound


def _at_text(at: Bound) -> str:
    if not at.relative:
        return iso_ms(at.ms)
    return f"-{-at.ms}ms" if at.ms else "now"


def _cursor(value: Any) -> int | str | None:
    fix = "omit it to start from the first event"
    stream, colon, position = value.partition(":") if isinstance(value, str) else ("", "", value)
    if not colon:
        return _number("cursor", value, 0, LAST_POSITION, fix)
    return f"{stream}:{_number('cursor', position or '-', 0, LAST_POSITION, fix)}"


def _number(name: str, value: Any, low: int, high: int, fix: str) -> int | None:
    if value is None or value == "":
        return None
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = low - 1
    if not low <= number <= high:
        raise QuestionError(f"{name} is out of range", found=repr(value), expected=f"{low} to {high}", fix=fix)
    return number


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
