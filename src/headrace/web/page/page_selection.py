"""The parameters in the URL of a view's page: keys, range, chart and order; its range and the windows of a chart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from headrace.aggregate import Value
from headrace.errors import QuestionError, did_you_mean
from headrace.format import EPOCH
from headrace.html import window_text
from headrace.language.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from headrace.language.token_cursor import parse_type
from headrace.serve.question import Question
from headrace.serve.question_times import MS, Bound, iso_ms, parse_bound
from headrace.server.status import ViewStatus

NAMES = ("start", "end", "column", "by", "sort")
WINDOW = "window_start"
OLDEST = "oldest"  # a start before all events
MOST_CHARACTERS = 200  # of a parameter that is repeated in a message


@dataclass(frozen=True)
class PageSelection:
    """The parameters of a view's page.

    - `keys`: (key, text) pairs; a key given twice means either value.
    - `start`, `end`: the range of the rows and the chart, as in a question; `oldest` starts at the first event.
    - `column`: the column of the chart; without it, the first with numbers.
    - `by`: the keys by which the chart has series, the others merged; without it, one series with all keys merged.
    - `sort`: the column that orders the rows, `-` before it for descending; without it, newest window first.
    """

    view: str
    keys: tuple[tuple[str, str], ...] = ()
    start: str = ""
    end: str = ""
    column: str = ""
    by: tuple[str, ...] = ()
    sort: str = ""

    @classmethod
    def read(cls, view: ViewStatus, parameters: Iterable[tuple[str, str]]) -> PageSelection:
        """The parameters of a URL; those without a value are ignored, since a form sends all of its fields."""
        keys: list[tuple[str, str]] = []
        options: dict[str, str] = {}
        for name, text in parameters:
            if name.startswith("key."):
                _check("key", name.removeprefix("key."), view.keys, view)
                keys += [(name.removeprefix("key."), text)] if text else []
            elif name not in NAMES:
                raise QuestionError(
                    f"the page of a view has no parameter '{name[:MOST_CHARACTERS]}'",
                    expected=", ".join(("key.<name>", *NAMES)),
                    fix=did_you_mean(name, NAMES),
                )
            elif name in options:
                raise QuestionError(f"parameter '{name}' is given twice", fix="give it once")
            else:
                options[name] = text.strip()
        by = tuple(name.strip() for name in options.pop("by", "").split(",") if name.strip())
        selection = cls(view.name, tuple(keys), by=by, **options)
        selection._check(view)
        return selection

    def _check(self, view: ViewStatus) -> None:
        if self.column:
            _check("column of numbers", self.column, numeric_columns(view), view)
        for key in self.by:
            _check("key", key, view.keys, view)
        if len(set(self.by)) != len(self.by):
            raise QuestionError("by names a key twice", found=", ".join(self.by), expected="each key once")
        if view.window_ms is None and (self.start or self.end):
            raise QuestionError(f"view '{self.view}' has no window, so its page takes no start or end")
        parse_bound("start", self.start if self.start != OLDEST else "")
        parse_bound("end", self.end)
        if self.sort:
            _check("column to sort by", self.sort_column, sort_columns(view), view)

    @property
    def sort_column(self) -> str:
        """The column that orders the rows; empty for the order of the windows."""
        return self.sort.removeprefix("-")

    @property
    def descending(self) -> bool:
        """Return whether the rows are ordered from the largest down."""
        return self.sort.startswith("-")

    @property
    def where(self) -> tuple[Mapping[str, Value], ...]:
        """The keys as a question takes them."""
        return Question.from_text(self.view, [(f"key.{key}", text) for key, text in self.keys]).where

    def with_(self, **changes: Any) -> PageSelection:
        """A copy with other parameters."""
        return replace(self, **changes)

    def path(self, anchor: str = "") -> str:
        """The URL of the page with these parameters."""
        parameters = [(f"key.{key}", text) for key, text in self.keys]
        parameters += [(name, text) for name in ("start", "end", "column") if (text := getattr(self, name))]
        parameters += [("by", ",".join(self.by))] if self.by else []
        parameters += [("sort", self.sort)] if self.sort else []
        query = f"?{urlencode(parameters)}" if parameters else ""
        return f"{view_path(self.view)}{query}{'#' + anchor if anchor else ''}"


def view_path(name: str) -> str:
    """The page of a view."""
    return f"/views/{quote(name, safe='')}"


def numeric_columns(view: ViewStatus) -> list[str]:
    """The columns of a view that a chart can draw."""
    return [column.name for column in view.columns if parse_type(column.type).is_numeric]


def sort_columns(view: ViewStatus) -> list[str]:
    """The columns that rows can be sorted by."""
    times = [WINDOW, "settled"] if view.window_ms is not None else []
    return [*view.keys, *(column.name for column in view.columns), *times]


def _check(what: str, name: str, names: Sequence[str], view: ViewStatus) -> None:
    if name not in names:
        raise QuestionError(
            f"view '{view.name}' has no {what} '{name[:MOST_CHARACTERS]}'",
            expected=", ".join(f"'{each}'" for each in names) or f"none: the view has no {what}",
            fix=did_you_mean(name, names),
        )


STEPS_MS = (
    *(n * SECOND_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR_MS for n in (1, 2, 3, 6, 12)),
    *(n * DAY_MS for n in (1, 2, 7, 14, 28, 91, 182, 364)),
)
MOST_ROUNDING = 4  # a round step may be this many times as long as the shortest sufficient one
EARLIEST_MS = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // MS
LATEST_MS = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // MS


@dataclass(frozen=True)
class PageRange:
    """The windows that end in (start, end]; without start, from the oldest on."""

    start_ms: int | None
    end_ms: int
    open: bool = False  # with windows that hold `end_ms`, too

    def of(self, question: Question) -> Question:
        """The question, for these windows."""
        start = None if self.start_ms is None else Bound(self.start_ms)
        return replace(question, start=start, end=None if self.open else Bound(self.end_ms))


def read_range(window: tuple[int, int], newest_event: str, selection: PageSelection) -> PageRange:
    """The requested range, widened to pane bounds and limited to the newest event.

    A question refuses a bound between two panes; a page widens the range instead, since people type it.
    """
    pane = math.gcd(*window)
    newest = to_ms(datetime.fromisoformat(newest_event)) // pane * pane + pane
    start = None if selection.start == OLDEST else _read_bound("start", selection.start, newest)
    end = _read_bound("end", selection.end, newest)
    start = None if start is None else start // pane * pane
    end = newest if end is None else min(-(-end // pane) * pane, newest)
    if start is not None and start >= end:
        raise QuestionError(
            "the range is empty: start must lie before end and before the newest event",
            found=f"start {iso_ms(start)}, end {iso_ms(end)}",
        )
    return PageRange(start, end)


def _read_bound(name: str, text: str, newest_ms: int) -> int | None:
    bound = parse_bound(name, text)
    if bound is None:
        return None
    return min(max(bound.ms + newest_ms if bound.relative else bound.ms, EARLIEST_MS), LATEST_MS)


@dataclass(frozen=True)
class Steps:
    """The windows of a chart, one per place: each `step_ms` after the one before it, the last ends at `end_ms`."""

    size_ms: int
    step_ms: int
    places: int
    end_ms: int

    @property
    def start_ms(self) -> int:
        """The beginning of the axis."""
        return self.end_ms - self.places * self.step_ms

    def of(self, question: Question) -> Question:
        """The question, for these windows; one that ends before the first place may be among them."""
        return replace(self._bounded(question), window_ms=self.size_ms, every_ms=self.step_ms)

    def whole(self, question: Question) -> Question:
        """The question, for one window over all of them."""
        bounded = self._bounded(question)
        assert bounded.start is not None, "it is bounded"
        return replace(bounded, window_ms=self.end_ms - bounded.start.ms)

    def _bounded(self, question: Question) -> Question:
        start = self.start_ms // self.step_ms * self.step_ms  # windows are aligned to it
        return replace(question, start=Bound(start), end=Bound(self.end_ms))

    @property
    def windows(self) -> list[str]:
        """The window of each place in words."""
        ends = [EPOCH + (self.start_ms + at * self.step_ms) * MS for at in range(1, self.places + 1)]
        return [window_text(end - self.size_ms * MS, end) for end in ends]

    def place(self, window_end: datetime) -> int:
        """The place of a window; negative before the first."""
        return self.places - 1 - (self.end_ms - to_ms(window_end)) // self.step_ms


def find_steps(window: tuple[int, int], start_ms: int | None, end_ms: int, most: int) -> Steps:
    """The view's own windows, or longer ones where more than `most` would have to be drawn; without start, the last."""
    size, every = window
    step = every if start_ms is None else _step(end_ms - start_ms, every, most)
    if step != every:
        size = max(size, step)
    end = -(-end_ms // step) * step if size == step else (end_ms - size) // step * step + size
    places = most if start_ms is None else max(-(-(end - start_ms) // step), 1)
    return Steps(size, step, places, end)


def _step(span: int, every: int, most: int) -> int:
    """A chart step that consists of whole windows and limits their number; a round one if possible."""
    if span <= every * most:
        return every
    shortest = -(-span // (every * (most - 1))) * every
    near = (step for step in STEPS_MS if step % every == 0 and shortest <= step <= MOST_ROUNDING * shortest)
    return next(near, shortest)


def to_ms(time: datetime) -> int:
    """Milliseconds since the epoch."""
    return (time - EPOCH) // MS
