"""Which cell of a view is to be explained: one value of each key, and one window.

Like a question, it is checked against the view only when it is answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headrace.aggregate import Value
from headrace.errors import QuestionError, did_you_mean
from headrace.format import EPOCH
from headrace.serve.plan import Windows, plan
from headrace.serve.question import Question, key_text, read_key
from headrace.serve.times import LAST_MS, MS, TIMES, Bound, iso_ms, parse_bound, parse_instant, parse_span
from headrace.store.base import Version

DEFAULT_LIMIT, HIGHEST_LIMIT = 50, 1_000
PARAMETERS = ("at", "window", "every", "limit", "cursor")
LAST_POSITION = (1 << 63) - 1


@dataclass(frozen=True)
class CellQuestion:
    """Which events are behind a cell.

    - `key`: a value of each key of the view (None is NULL).
    - `at`: a time within the window; where windows overlap, it is the last of them that holds this time, so the start
      of a window means that window. A view without window takes none.
    - `window`, `every`: as in a question; without them, the windows that the view declares.
    - `cursor`: the position behind which the page begins.
    """

    view: str
    key: Mapping[str, Value] = field(default_factory=dict)
    at: Bound | None = None
    window_ms: int | None = None
    every_ms: int | None = None
    limit: int = DEFAULT_LIMIT
    cursor: int | None = None

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
    ) -> CellQuestion:
        """From Python values, or text in their place."""
        return cls(
            view=view,
            key=dict(key or {}),
            at=_parse_at(at),
            window_ms=parse_span("window", window),
            every_ms=parse_span("every", every),
            limit=_number("limit", limit, 1, HIGHEST_LIMIT, "take the rest with next_cursor") or DEFAULT_LIMIT,
            cursor=_number("cursor", cursor, 0, LAST_POSITION, "omit it to start from the first event"),
        )

    @classmethod
    def from_text(cls, view: str, parameters: Iterable[tuple[str, str]]) -> CellQuestion:
        r"""From the parameters of a URL or the options of a command; `key.page=\N` is NULL, as in a question."""
        key: dict[str, str | None] = {}
        named: dict[str, str] = {}
        for name, text in parameters:
            is_key = name.startswith("key.")
            if not is_key and name not in PARAMETERS:
                raise QuestionError(
                    f"explain has no parameter '{name}'",
                    expected=", ".join(("key.<name>", *PARAMETERS)),
                    fix=did_you_mean(name, PARAMETERS) or f"to name a key write key.{name}=",
                )
            if name.removeprefix("key.") in key if is_key else name in named:
                raise QuestionError(f"'{name}' is given twice", fix="a cell has one value of each key; give it once")
            if is_key:
                key[name.removeprefix("key.")] = read_key(text)
            else:
                named[name] = text
        return cls.of(view, key, **named)

    def parameters(self) -> list[tuple[str, str]]:
        """The text that `from_text` reads back, for a URL."""
        named = {
            "at": _at_text(self.at) if self.at else None,
            "window": self.window_ms and f"{self.window_ms}ms",
            "every": self.every_ms and f"{self.every_ms}ms",
            "limit": str(self.limit),
            "cursor": None if self.cursor is None else str(self.cursor),
        }
        keys = [(f"key.{name}", key_text(value)) for name, value in self.key.items()]
        return [*keys, *((name, text) for name, text in named.items() if text)]


@dataclass(frozen=True)
class Cell:
    """One (key, window) of a view; without bounds it is of all time."""

    key: Mapping[str, Value]
    windows: Windows | None
    start_ms: int | None
    end_ms: int | None

    def question(self, view: str) -> Question:
        """The question whose answer is this cell alone."""
        where = (self.key,) if self.key else ()
        if self.start_ms is None or self.end_ms is None:
            return Question(view, where)
        size_ms = self.end_ms - self.start_ms
        bounds = Bound(self.start_ms), Bound(self.end_ms)
        return Question(view, where, start=bounds[0], end=bounds[1], window_ms=size_ms, every_ms=size_ms)

    def window_at(self, ms: int) -> tuple[int, int] | None:
        """The last of the windows that hold this time; None where there is none."""
        assert self.windows is not None, "a view without window has no times"
        start = ms // self.windows.every_ms * self.windows.every_ms
        return (start, start + self.windows.size_ms) if ms < start + self.windows.size_ms else None


def find_cell(asked: CellQuestion, version: Version) -> Cell:
    """The cell that is meant; raises QuestionError where the view has no such cell."""
    view = version.view
    question = Question(
        asked.view, (asked.key,) if asked.key else (), window_ms=asked.window_ms, every_ms=asked.every_ms
    )
    planned = plan(question, version)
    key = planned.where[0] if planned.where else {}
    missing = [name.name for name in view.keys if name.name not in key]
    if missing:
        raise QuestionError(
            f"a cell of view '{view.name}' has one value of each key",
            found=f"none of {', '.join(repr(name) for name in missing)}",
            expected=", ".join(f"{each.name}=…" for each in view.keys),
            fix=r"NULL is written \N",
        )
    if planned.windows is None:
        if asked.at is not None:
            raise QuestionError(
                f"view '{view.name}' has no window, so it takes no at", expected="the keys of the cell only"
            )
        return Cell(key, None, None, None)
    cell = Cell(key, planned.windows, None, None)
    ms = _at_ms(asked, version)
    found = cell.window_at(ms)
    if found is None:
        next_ms = (ms // planned.windows.every_ms + 1) * planned.windows.every_ms
        raise QuestionError(
            f"no window of view '{view.name}' holds that time",
            found=iso_ms(ms),
            expected=f"a time before {iso_ms(next_ms - planned.windows.every_ms + planned.windows.size_ms)} "
            f"or from {iso_ms(next_ms)} on",
        )
    if found[1] > LAST_MS:
        raise QuestionError(
            f"no window of view '{view.name}' holds that time",
            found=iso_ms(ms),
            expected="a time whose window ends in the year 9999 or before",
        )
    return Cell(key, planned.windows, *found)


def _at_ms(asked: CellQuestion, version: Version) -> int:
    window = version.view.window
    assert window is not None, "asked of a view with windows"
    if asked.at is None:
        raise QuestionError(
            f"view '{asked.view}' has windows, and a cell lies in one of them",
            found="no at",
            expected="at, any time in the window, such as its window_start",
        )
    if not asked.at.relative:
        if asked.at.ms < 0:
            raise QuestionError("no pane holds that time", found=str(asked.at), expected="a time from 1970 on")
        return asked.at.ms
    if version.newest_us is None:
        raise QuestionError(f"view '{asked.view}' has no event yet to count from", expected="a time in ISO 8601")
    newest_end = (version.newest_us // (1000 * window.pane_ms) + 1) * window.pane_ms
    return max(0, newest_end + min(asked.at.ms, -1))  # 'now' is the end of the newest pane: that pane is meant


def _parse_at(value: Any) -> Bound | None:
    """Any time, to the microsecond; it need not be a pane start."""
    time = parse_instant(value) if isinstance(value, str) and not value.strip().isdigit() else value
    if isinstance(time, datetime):
        whole = time.replace(tzinfo=UTC) if time.tzinfo is None else time
        return Bound((whole - EPOCH) // MS)
    bound = parse_bound("at", value)
    if bound is not None and bound.relative and bound.ms > 0:
        raise QuestionError("at lies after the newest event", found=repr(value), expected=TIMES)
    return bound


def _at_text(at: Bound) -> str:
    if not at.relative:
        return iso_ms(at.ms)
    return f"-{-at.ms}ms" if at.ms else "now"


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
