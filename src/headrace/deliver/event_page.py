"""Events of a stream as values: a cursor in the log, an event, a page of events. Needs neither Arrow nor DuckDB."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Self

import orjson

from headrace.errors import QuestionError
from headrace.language.token_cursor import parse_type
from headrace.name_encoding import decode_name, encode_name
from headrace.serve.json_values import decoder
from headrace.types import Type

EARLIEST, LATEST = "earliest", "latest"
DEFAULT_LIMIT, HIGHEST_LIMIT = 1_000, 10_000
HIGHEST_LAST = 1_000_000
_CURSOR = re.compile(r"(\d{1,18})(?:-(\d{1,19})(?:\.(\d{1,9}))?)?")
_UNION = re.compile(r"[\w~]+:[\d.-]+(?:,[\w~]+:[\d.-]+)*", re.ASCII)
_LAST_ROW = 1 << 31  # behind all that were made of one event
Columns = tuple[tuple[str, Type], ...]


@dataclass(frozen=True, order=True)
class EventCursor:
    """A place in the log of a stream: all events up to this commit and position have been read, none after it.

    Events are ordered by commit, then by position. Position -1 is the start of a commit. Events of a derived stream
    that were made of one event follow each other: `row` is the last of them that has been read.
    """

    commit: int
    position: int = -1
    row: int = _LAST_ROW

    @property
    def before(self) -> Self:
        """The cursor before the event that it is at: not all of its rows have been read."""
        return self if self.row == _LAST_ROW else replace(self, position=self.position - 1, row=_LAST_ROW)

    def to_text(self) -> str:
        """As URLs, files and the ids of server-sent events contain it."""
        row = "" if self.row == _LAST_ROW else f".{self.row}"
        return f"{self.commit}" if self.position < 0 else f"{self.commit}-{self.position}{row}"

    @staticmethod
    def is_cursor(text: str) -> bool:
        """Whether a text is a cursor of a stream of any kind, and not a date."""
        return _CURSOR.fullmatch(text) is not None or _UNION.fullmatch(text) is not None

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The cursor that `to_text` wrote."""
        match = _CURSOR.fullmatch(text)
        if match is None or (match[2] is not None and int(match[2]) >= 1 << 63):
            raise QuestionError(
                f"'{text[:80]}' is not a cursor of a stream", expected="the cursor of an event, such as 12-4096"
            )
        row = _LAST_ROW if match[3] is None else int(match[3])
        return cls(int(match[1]), -1 if match[2] is None else int(match[2]), row)


@dataclass(frozen=True)
class UnionCursor:
    """A place in a stream that is made of several base streams: one in the log of each."""

    parts: tuple[tuple[str, EventCursor], ...]  # by the name of the base stream

    def to_text(self) -> str:
        """As URLs, files and the ids of server-sent events contain it."""
        return ",".join(f"{encode_name(stream)}:{cursor.to_text()}" for stream, cursor in self.parts)

    def of(self, stream: str) -> EventCursor:
        """The place in one of the logs: the start of one that it does not name."""
        return dict(self.parts).get(stream, START)

    def at(self, stream: str, cursor: EventCursor) -> UnionCursor:
        """The same place, but for one of the logs."""
        return UnionCursor(tuple((name, cursor if name == stream else part) for name, part in self.parts))

    def __lt__(self, other: UnionCursor) -> bool:
        """Whether there is something in one of the logs between this place and the other."""
        return any(self.of(stream) < cursor for stream, cursor in other.parts)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The cursor that `to_text` wrote."""
        if _UNION.fullmatch(text) is None:
            raise QuestionError(
                f"'{text[:80]}' is not a cursor of a stream that is made of several",
                expected="the cursor of one of its events, such as visits:12-4096,calls:3",
            )
        parts = (part.split(":") for part in text.split(","))
        return cls(tuple((decode_name(stream), EventCursor.from_text(cursor)) for stream, cursor in parts))


Cursor = EventCursor | UnionCursor


def read_cursor(text: str) -> Cursor:
    """The cursor of a stream of any kind."""
    return UnionCursor.from_text(text) if ":" in text else EventCursor.from_text(text)


START = EventCursor(0)


@dataclass(frozen=True)
class EventQuestion:
    """Which events of a stream to read. Without `cursor`, from `start`, or the last so many events."""

    cursor: str | None = None
    start: Any = None
    last: int | None = None
    where: str | None = None
    key: Mapping[str, Any] | None = None
    limit: int = DEFAULT_LIMIT

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("limit", self.limit, 1, HIGHEST_LIMIT),
            ("last", self.last, 0, HIGHEST_LAST),
        ):
            if value is not None and not least <= value <= most:
                raise QuestionError(f"{name} is out of range", found=str(value), expected=f"{least} to {most:,}")
        if self.last is not None and self.start is not None:
            raise QuestionError("last and from contradict each other", expected="one of both")


@dataclass(frozen=True)
class StreamEvent:
    """An event of a stream: its fields, typed, and where it is in the log."""

    commit: int
    position: int
    arrived: datetime
    fields: Mapping[str, Any]
    cursor: str  # reading from it continues after this event
    stream: str | None = None  # of an event of a derived stream: the base stream whose event it was made of

    def __getitem__(self, field: str) -> Any:
        return self.fields[field]

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], columns: Columns) -> Self:
        """The event from its JSON."""
        fields = decode_values(content["event"], columns)
        arrived = datetime.fromisoformat(content["arrived"]).astimezone(UTC)
        place = (content["commit"], content["position"], arrived, fields, content["cursor"])
        return cls(*place, content.get("stream"))


def decode_values(content: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Values of columns from their JSON."""
    values = dict(content)
    for name, decode in _decoders(columns):
        if values.get(name) is not None:
            values[name] = decode(values[name])
    return values


@lru_cache(maxsize=64)
def _decoders(columns: Columns) -> tuple[tuple[str, Any], ...]:
    return tuple((name, decode) for name, of in columns if (decode := decoder(of)) is not None)


@dataclass(frozen=True)
class EventPage:
    """Events after a cursor, in the order of the log. `lines` are their JSON; `cursor` continues after the last."""

    stream: str
    lines: tuple[bytes, ...]
    cursor: Cursor
    more: bool  # there are more events now
    columns: Columns

    def events(self) -> list[StreamEvent]:
        """The events as values."""
        return [StreamEvent.from_dict(orjson.loads(line), self.columns) for line in self.lines]

    @classmethod
    def from_dict(cls, stream: str, content: Mapping[str, Any]) -> Self:
        """The page from its JSON."""
        lines = tuple(orjson.dumps(event) for event in content["events"])
        columns = read_columns(content["columns"])
        return cls(stream, lines, read_cursor(content["cursor"]), content["more"], columns)

    def as_json(self) -> bytes:
        """As HTTP shows it."""
        more = b"true" if self.more else b"false"
        head = f'{{"cursor":"{self.cursor.to_text()}","more":'.encode() + more
        return head + b',"columns":' + columns_json(self.columns) + b',"events":[' + b",".join(self.lines) + b"]}"


@lru_cache(maxsize=64)
def columns_json(columns: Columns) -> bytes:
    """The columns of events as JSON."""
    return orjson.dumps([{"name": name, "type": str(of)} for name, of in columns])


def read_columns(content: Any) -> Columns:
    """The columns from their JSON."""
    return tuple((column["name"], parse_type(column["type"])) for column in content)
