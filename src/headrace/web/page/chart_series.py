"""The series that a chart of a view shows: one column over time, for all keys, for the top keys, or over keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from headrace.aggregate import REGISTRY, Value
from headrace.format import EPOCH
from headrace.html import window_text
from headrace.language.durations import format_duration
from headrace.serve.answer import Answer
from headrace.serve.question import Question
from headrace.serve.question_times import MS
from headrace.server.status import ViewStatus
from headrace.web.page.page_selection import PageRange, PageSelection, Steps, find_steps, numeric_columns, to_ms

BARS = 10  # keys in the chart of a view without window
TOP = 5  # keys that are lines of a chart over time; the style sheet has so many colours
MOST_KEYS = 20_000  # keys among which the top ones are found
LEAST_PLACES = 20  # of a chart over time, so that the bar of a single window is not as wide as the chart

Ask = Callable[[Question], Answer]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class ChartPoint:
    """One bar of a chart, or one place of a line."""

    at: int  # which place of the chart, from 0
    label: str
    value: Any
    settled: bool


@dataclass(frozen=True)
class Series:
    """One column over time, or over keys where there is no time."""

    column: str
    title: str
    points: list[ChartPoint]
    places: int
    start: datetime | None = None  # the time that the places span; None: they are keys
    end: datetime | None = None


@dataclass(frozen=True)
class Line:
    """One of the top keys over time."""

    key: Mapping[str, Value]
    total: Any  # the column over all of the range
    points: Mapping[int, ChartPoint]  # by place

    @property
    def label(self) -> str:
        return ", ".join(key_label(value) for value in self.key.values())


@dataclass(frozen=True)
class Lines:
    """One column over time for several keys."""

    column: str
    title: str
    lines: list[Line]
    windows: list[str]  # one per place
    start: datetime
    end: datetime


def find_chart(
    ask: Ask, view: ViewStatus, question: Question, selection: PageSelection, range_: PageRange, most: int
) -> Series | Lines | None:
    """The chart of a view with windows; None where it has no numbers."""
    columns = numeric_columns(view)
    if not columns:
        return None
    column = selection.column or columns[0]
    start = range_.start_ms
    if selection.start:
        oldest = _oldest(ask, question, range_)
        if oldest is None:
            return None
        start = oldest if start is None else max(start, oldest)
    assert view.window is not None, "a chart over time is of a view with windows"
    steps = find_steps(view.window, start, range_.end_ms, most)
    if selection.by:
        return _top_lines(ask, view, question, selection.by, column, steps, shrink=not selection.start)
    answer = ask(replace(steps.of(question), by=(), limit=most + 2))
    return _over_time(answer, view, column, steps, bool(question.where), shrink=not selection.start)


def over_keys(answer: Answer, rows: Sequence[Row], column: str) -> Series | None:
    """The largest of the rows by a column; each row begins with its keys."""
    at = column_at(answer, column)
    keys = window_at(answer)
    names = [name for name, _ in answer.columns[:keys]]
    largest = sorted(rows, key=lambda row: rank(row[at]), reverse=True)[:BARS]
    points = [
        ChartPoint(place, ", ".join(key_label(key) for key in row[:keys]), row[at], settled=True)
        for place, row in enumerate(largest)
    ]
    return Series(column, f"{column} by {', '.join(names)}: the {len(points)} largest", points, len(points))


def column_at(answer: Answer, name: str) -> int:
    """The index of a column in the rows of an answer."""
    return [column for column, _ in answer.columns].index(name)


def window_at(answer: Answer) -> int:
    """The index of the start of the window: after the keys."""
    return column_at(answer, "window_start")


def rank(value: Any) -> tuple[bool, Any]:
    """The sort key of a value: NULL and NaN below every number."""
    return (False, 0) if value is None or value != value else (True, value)


def key_label(key: Value) -> str:
    """A key's value as text for a chart."""
    if isinstance(key, bool):
        return str(key).lower()
    return "NULL" if key is None else str(key) or '""'


def _oldest(ask: Ask, question: Question, range_: PageRange) -> int | None:
    """The start of the oldest window of the range that holds events."""
    first = ask(replace(range_.of(question), by=(), limit=1, having="")).values
    return to_ms(first[0][0]) if first else None


def _over_time(
    answer: Answer, view: ViewStatus, column: str, steps: Steps, filtered: bool, *, shrink: bool
) -> Series | None:
    points = _points(answer.values, 0, column_at(answer, column), steps)
    if not points:
        return None
    skipped = _empty_places([point.at for point in points], steps) if shrink else 0
    steps = replace(steps, places=steps.places - skipped)
    together = ", filtered" if filtered else f", {' and '.join(view.keys)} together" if view.keys else ""
    return Series(
        column=column,
        title=f"{column} per {format_duration(steps.size_ms)}{together}",
        points=[replace(point, at=point.at - skipped) for point in points],
        places=steps.places,
        start=EPOCH + steps.start_ms * MS,
        end=EPOCH + steps.end_ms * MS,
    )


def _empty_places(places: Sequence[int], steps: Steps) -> int:
    """The number of empty places at the start that can be omitted if no range was requested."""
    return min([*places, steps.places - min(LEAST_PLACES, steps.places)])


def _points(rows: Iterable[Row], keys: int, at: int, steps: Steps) -> list[ChartPoint]:
    """Points of rows in the order of their windows."""
    points = []
    for row in rows:
        place = steps.place(row[keys + 1])
        if place >= 0:
            points.append(ChartPoint(place, window_text(row[keys], row[keys + 1]), row[at], bool(row[-1])))
    return points


def _top_lines(
    ask: Ask, view: ViewStatus, question: Question, by: tuple[str, ...], column: str, steps: Steps, *, shrink: bool
) -> Lines | None:
    ranked = ask(replace(steps.whole(question), by=by, limit=MOST_KEYS))
    at, keys = column_at(ranked, column), len(by)
    drawable = [row for row in ranked.values if rank(row[at])[0]]
    top = sorted(drawable, key=lambda row: rank(row[at]), reverse=True)[:TOP]
    if not top:
        return None
    top_keys = [dict(zip(by, row, strict=False)) for row in top]
    # Conditions on keys allow any combination of their values, so a top key takes the place of those on the same key.
    where = {tuple({**others, **key}.items()) for others in question.where or ({},) for key in top_keys}
    limit = len(top) * (steps.places + 2)
    rows = ask(replace(steps.of(question), where=tuple(map(dict, where)), by=by, limit=limit)).values
    if shrink:
        skipped = _empty_places([max(steps.place(row[keys + 1]), 0) for row in rows], steps)
        steps = replace(steps, places=steps.places - skipped)
    # Where a window has no row, a count is 0.
    counts = [each.name for each in view.columns if (cls := REGISTRY.get(each.aggregate)) and cls.empty == 0]
    is_count = column in counts
    lines = []
    for key, of_key in zip(top_keys, top, strict=True):
        own = [row for row in rows if row[:keys] == of_key[:keys]]
        points = {point.at: point for point in _points(own, keys, at, steps)}
        if is_count:  # a window without a row counted nothing
            points = {
                place: points.get(place) or ChartPoint(place, "", 0, settled=True) for place in range(steps.places)
            }
        lines.append(Line(key, of_key[at], points))
    total = f"{len(ranked.values):,}" if ranked.next_cursor is None else f"the first {len(ranked.values):,}"
    title = f"{column} per {format_duration(steps.size_ms)}: the top {len(top)} of {total} by {' and '.join(by)}"
    return Lines(column, title, lines, steps.windows, EPOCH + steps.start_ms * MS, EPOCH + steps.end_ms * MS)
