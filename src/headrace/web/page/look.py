"""What the page shows of a view: its newest rows and one number over time, by a few small questions.

Answers come oldest first, so the newest rows are found by asking for as many of the last windows as fit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from headrace.aggregate import Value
from headrace.define.durations import format_duration
from headrace.readable import EPOCH
from headrace.serve import Answer, Question
from headrace.serve.times import MS, Bound
from headrace.web.page.cells import window_text

SPANS = (1, 12, 144, 1728, None)  # how many of the last windows to ask for; None is all
FIRST_SPAN = 1  # where the search begins for a view that was not looked at before
BARS = 10  # keys in the chart of a view without window
LEAST_PLACES = 20  # of a chart over time: one window is a bar, not a wall

Ask = Callable[[Question], Answer]
Where = Sequence[Mapping[str, Value]]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Point:
    """One bar of a chart."""

    at: int  # which place of the chart, from 0
    label: str
    value: Any
    settled: bool


@dataclass(frozen=True)
class Series:
    """One column over time, or over keys where there is no time."""

    column: str
    title: str
    points: list[Point]
    places: int
    start: datetime | None = None  # the time that the places span; None: they are keys
    end: datetime | None = None


@dataclass(frozen=True)
class Look:
    """A view at one moment."""

    answer: Answer  # which says how good it is
    rows: list[Row]  # in the order of answer.columns, newest window first
    what: str  # which rows these are
    series: Series | None
    older: datetime | None  # windows that end by then are left out


class Looker:
    """Looks at views; remembers how many windows of each filled the page."""

    def __init__(self, ask: Ask, *, rows: int, windows: int) -> None:
        self._ask = ask
        self._rows = rows
        self._windows = windows
        self._spans: dict[str, int] = {}

    def look(self, view: Mapping[str, Any], where: Where = (), before: datetime | None = None) -> Look:
        """A view now; `where` keeps some keys, `before` goes back in time."""
        question = Question(view["name"], tuple(where), limit=self._rows * 4)
        if view["window_ms"] is None:
            return self._look_at_all_time(question, len(view["keys"]))
        newest = view["newest_event"]
        if newest is None:
            return self._look_while_catching_up(question, len(view["keys"]))
        pane = math.gcd(view["window_ms"], view["every_ms"])
        end = _ms(datetime.fromisoformat(newest)) // pane * pane + pane
        if before is not None:
            end = min(end, _ms(before) // pane * pane)
        return self._look_back(question, view, end)

    def _look_at_all_time(self, question: Question, keys: int) -> Look:
        answer = self._ask(question)
        if answer.next_cursor:
            rows = answer.values[: self._rows]
            return Look(answer, rows, f"the first {len(rows)} rows by key", None, None)
        at = _first_numeric(answer, keys)
        rows = answer.values if at is None else sorted(answer.values, key=lambda row: _size(row[at]), reverse=True)
        what = f"all {len(rows)} rows" if len(rows) <= self._rows else f"{self._rows} of {len(rows)} rows"
        series = None if at is None or len(rows) < 2 else _over_keys(answer, rows[:BARS], at, keys)
        return Look(answer, rows[: self._rows], what, series, None)

    def _look_while_catching_up(self, question: Question, keys: int) -> Look:
        """A version that is not yet at a known time: rows from the oldest on."""
        answer = self._ask(question)
        rows = _newest_first(answer, self._rows, keys)
        return Look(answer, rows, f"{len(rows)} of the oldest rows, while the view catches up", None, None)

    def _look_back(self, question: Question, view: Mapping[str, Any], end: int) -> Look:
        every, keys = view["every_ms"], len(view["keys"])
        answer, span = self._newest(question, end, every)
        if not answer.values and not question.where:
            # All events lie ahead of the clock by which they were taken in: better those than nothing.
            answer, span = self._ask(question), None
        rows = _newest_first(answer, self._rows, keys)
        all_of_them = span is None and len(rows) == len(answer.values) and not answer.next_cursor
        older = None if all_of_them or not rows else rows[-1][keys + 1] - every * MS
        if answer.next_cursor:
            what = f"the first {len(rows)} rows of the newest window, by key"
        else:
            what = f"all {len(rows)} rows" if all_of_them else f"the newest {len(rows)} rows"
        start = end // every * every - self._windows * every
        total = self._ask(replace(question, by=(), start=Bound(start), end=Bound(end), limit=self._windows + 2))
        return Look(answer, rows, what, _over_time(total, view, end, self._windows, bool(question.where)), older)

    def _newest(self, question: Question, end: int, every: int) -> tuple[Answer, int | None]:
        """The rows of as many of the last windows as fit, or the first rows of the last window alone."""
        known = question.view if not question.where else ""
        at = self._spans.get(known, FIRST_SPAN)

        def last(at: int) -> Answer:
            span = SPANS[at]
            start = None if span is None else Bound(end // every * every - span * every)
            return self._ask(replace(question, start=start, end=Bound(end)))

        found = last(at)
        while found.next_cursor and at > 0:
            at -= 1
            found = last(at)
        while not found.next_cursor and len(found.values) < self._rows // 4 and at + 1 < len(SPANS):
            wider = last(at + 1)
            if wider.next_cursor:
                break
            at, found = at + 1, wider
        if known:
            self._spans[known] = at
        return found, SPANS[at]


def _newest_first(answer: Answer, most: int, keys: int) -> list[Row]:
    """The rows, newest window first, keys in order; a window that does not fit whole is left out."""
    windows = [list(rows) for _, rows in itertools.groupby(answer.values, key=lambda row: row[keys])]
    shown: list[Row] = []
    for rows in reversed(windows):
        if shown and len(shown) + len(rows) > most:
            break
        shown += rows[:most]
    return shown


def _over_time(total: Answer, view: Mapping[str, Any], end: int, windows: int, filtered: bool) -> Series | None:
    at = _first_numeric(total, 0)
    every = view["every_ms"]
    if at is None or not total.values:
        return None
    points = []
    for row in total.values:
        place = windows - 1 - (end - _ms(row[1])) // every
        if place >= 0:
            points.append(Point(place, window_text(row[0], row[1]), row[at], bool(row[-1])))
    if not points:
        return None
    skipped = min(points[0].at, windows - min(LEAST_PLACES, windows))
    places = windows - skipped
    column = total.columns[at][0]
    together = ", filtered" if filtered else f", {' and '.join(view['keys'])} together" if view["keys"] else ""
    return Series(
        column=column,
        title=f"{column} per {format_duration(view['window_ms'])}{together}",
        points=[replace(point, at=point.at - skipped) for point in points],
        places=places,
        start=EPOCH + (end - places * every) * MS,
        end=EPOCH + end * MS,
    )


def _over_keys(answer: Answer, rows: Sequence[Row], at: int, keys: int) -> Series:
    names = [name for name, _ in answer.columns[:keys]]
    points = [
        Point(place, ", ".join(_key_text(key) for key in row[:keys]), row[at], settled=True)
        for place, row in enumerate(rows)
    ]
    column = answer.columns[at][0]
    return Series(column, f"{column} by {', '.join(names)}: the {len(points)} largest", points, len(points))


def _key_text(key: Value) -> str:
    return "NULL" if key is None else str(key) or '""'


def _first_numeric(answer: Answer, keys: int) -> int | None:
    """Where the first column with numbers stands, behind the keys and the window."""
    places = range(keys + 2, len(answer.columns) - 1)
    return next((at for at in places if answer.columns[at][1].is_numeric), None)


def _size(value: Any) -> tuple[bool, Any]:
    """What rows are ordered by: NULL and NaN below every number."""
    return (False, 0) if value is None or value != value else (True, value)


def _ms(time: datetime) -> int:
    return (time - EPOCH) // MS
