"""Which cell of a view is to be explained: one value of each key, and one window.

Like a question, it is checked against the view only when it is answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.language.calendar import Calendar, find_zone
from headrace.errors import QuestionError, did_you_mean
from headrace.format import EPOCH
from headrace.serve.question import key_text, read_key
from headrace.serve.times import (
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
