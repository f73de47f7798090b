"""Resolves a question, or the cell that is to be explained, for one version of its view: bounds, windows, and what to
read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headrace.aggregate import Value
from headrace.define.model import View, Window
from headrace.define.outputs import outputs_of
from headrace.errors import QuestionError, did_you_mean
from headrace.format import EPOCH
from headrace.language.calendar import UTC_NAME, Calendar
from headrace.language.durations import DAY_MS, format_duration
from headrace.serve.explanation import CellQuestion
from headrace.serve.json_values import key_value
from headrace.serve.page_cursor import read_cursor
from headrace.serve.question import SETTLED_ONLY, Question
from headrace.serve.question_times import LAST_MS, Bound, iso_ms
from headrace.serve.windows import Windows
from headrace.store.selection import Selection
from headrace.store.store_contract import Snapshot
from headrace.store.version import Version
from headrace.types import Type


@dataclass(frozen=True)
class ReadPlan:
    """What to read and how to present it."""

    by: tuple[str, ...]
    types: tuple[Type, ...]  # of the group keys
    where: tuple[Mapping[str, Value], ...]
    windows: Windows | None  # None: one window, over all time or between the bounds
    bounds: tuple[int | None, int | None]  # start and end of the question, in ms since the epoch
    counted_from_ms: int | None  # what relative bounds were counted from
    after: tuple[Value, ...] | None
    empty: bool  # nothing can match: a relative bound, and no event yet; or only settled rows, and there are none
    newest_first: bool = False
    skip: int = 0  # ordered rows of earlier pages

    @property
    def overlapping(self) -> bool:
        """Whether windows must be composed from buckets; otherwise the store's buckets are the windows."""
        return self.windows is not None and self.windows.composed

    @property
    def has_sessions(self) -> bool:
        """Whether the rows are sessions; each has its first and last time at its end."""
        return self.windows is not None and self.windows.session

    def selection(self, limit: int | None) -> Selection:
        """The first partials of this page, folded into windows or into the buckets that tile them."""
        if self.windows is None:
            return Selection(self.by, self.where, self.bounds, after=self.after, limit=limit)
        if self.windows.session:
            ends = (self.windows.start_ms, self.windows.end_ms)
            rows = Selection(self.by, self.where, after=self.after, limit=limit, newest_first=self.newest_first)
            return replace(rows, sessions=True, session_ends=ends)
        first, last = self.windows.panes
        if self.overlapping and self.after is not None:
            # The page continues in this window: buckets of earlier pages are in no remaining window.
            start, end = self.windows.bounds(self.after[0])
            first, last = (first, end) if self.newest_first else (start, last)
        return Selection(
            by=self.by,
            where=self.where,
            panes=(first, last),
            bucket_ms=self.windows.bucket_ms,
            origin_ms=self.windows.origin_ms,
            after=None if self.overlapping else self.after,
            limit=limit,
            newest_first=self.newest_first,
            calendar=self.windows.calendar,
            step_ms=self.windows.every_ms if self.windows.cumulative else 0,
        )


def plan(question: Question, version: Version) -> ReadPlan:
    """The question against a view; raises QuestionError for what the view cannot answer."""
    view = version.view
    types = {key.name: key.expression.type for key in view.keys}
    by = tuple(types) if question.by is None else question.by
    for name in by:
        _check_key(view, name, types)
    where = tuple(
        {name: key_value(name, _check_key(view, name, types), value) for name, value in alternative.items()}
        for alternative in question.where
    )
    key_types = tuple(types[name] for name in by)
    cursor = read_cursor(question, version, key_types) if question.cursor else None
    after = cursor.last if cursor and cursor.skip is None else None
    skip = (cursor.skip or 0) if cursor else 0
    if view.window is None:
        _refuse_time(question)
        _refuse_settled(question, f"view '{view.name}' has no window", "leave it out")
        return ReadPlan(by, key_types, where, None, (None, None), None, after, empty=False, skip=skip)
    pane = view.window.pane_ms if question.all_time else _grain_ms(view.window)
    has_relative = any(bound and bound.relative for bound in (question.start, question.end))
    newest = None if version.newest_us is None else _end_of(version.newest_us, pane)
    bounds = (cursor.start_ms, cursor.end_ms) if cursor else _bounds(question, newest or 0, pane)
    last_end, none_settled = _last_end(question, version, bounds[1])
    return ReadPlan(
        by=by,
        types=key_types,
        where=where,
        windows=None if question.all_time else _windows(question, view.window, bounds[0], last_end),
        bounds=bounds,
        counted_from_ms=newest if has_relative else None,
        after=after,
        empty=none_settled or (has_relative and newest is None),
        newest_first=question.newest_first,
        skip=skip,
    )


def _grain_ms(window: Window) -> int:
    """What bounds of windows are a multiple of: their panes; sessions begin with an event, at any time."""
    return 1 if window.session else window.pane_ms


def _end_of(newest_us: int, pane: int) -> int:
    """The end of the pane of the newest event."""
    return (newest_us // (1000 * pane) + 1) * pane


def _bounds(question: Question, newest: int, pane: int) -> tuple[int | None, int | None]:
    start = _bound("start", question.start, newest, pane)
    end = _bound("end", question.end, newest, pane)
    if start is not None and end is not None and start >= end:
        raise QuestionError(
            "end must lie after start",
            found=f"start {iso_ms(start)}, end {iso_ms(end)}",
            expected="closed-open bounds [start, end)",
        )
    return start, end


def _bound(name: str, bound: Bound | None, newest: int, pane: int) -> int | None:
    if bound is None:
        return None
    below = bound.ms // pane * pane
    if below == bound.ms:
        return newest + bound.ms if bound.relative else bound.ms
    if bound.relative:
        near = [f"'-{format_duration(-ms)}'" if ms else "'now'" for ms in (below, below + pane)]
        text = f"-{format_duration(-bound.ms)}" if bound.ms < 0 else format_duration(bound.ms)
    else:
        near, text = [f"'{iso_ms(ms)}'" for ms in (below, below + pane)], str(bound)
    raise QuestionError(
        f"{name} is not on a pane start",
        found=text,
        expected=f"a multiple of {format_duration(pane)}, the view's pane",
        fix=f"the nearest that work are {near[0]} and {near[1]}",
    )


def _windows(question: Question, declared: Window, start: int | None, end: int | None) -> Windows:
    """The windows of the question, or those that the view declares."""
    if declared.session:
        _refuse_fixed(question)
        return Windows(declared.size_ms, declared.size_ms, start, end, session=True)
    pane, step, calendar = declared.pane_ms, question.cumulate_ms, question.calendar
    _check_tiles(question, declared)
    if question.has_no_window:
        # Windows with a place of their own keep it; others are aligned to the start of the question.
        placed = declared.offset_ms or declared.calendar or declared.cumulative
        offset = declared.offset_ms if placed else None
        calendar = declared.calendar
        if calendar and question.zone:
            calendar = replace(calendar, zone=question.zone)
            _check_calendar(calendar, pane)
        return Windows(declared.size_ms, declared.slide_ms, start, end, offset, calendar, declared.cumulative)
    if calendar is None:
        alone = question.window_ms or question.every_ms
        assert alone is not None, "one of them is given"
        size, every = question.window_ms or alone, question.every_ms or alone
        if step is None:
            return Windows(size, every, start, end)
        if size % step:
            raise QuestionError(
                f"a window of {format_duration(size)} does not grow in steps of {format_duration(step)}",
                expected="a window that is a multiple of cumulate",
            )
        return Windows(size, step, start, end, 0, cumulative=True)
    _check_calendar(calendar, pane)
    every = calendar.nominal_ms if step is None else step
    return Windows(calendar.nominal_ms, every, start, end, 0, calendar, step is not None)


def _refuse_fixed(question: Question) -> None:
    if not question.has_no_window:
        raise QuestionError(
            f"view '{question.view}' has sessions, which other windows would cut",
            expected="no window, every or cumulate; or window=all, for all time",
            fix="declare a view with window(…) in GROUP BY for windows of a fixed size",
        )


def _check_calendar(calendar: Calendar, pane: int) -> None:
    if calendar.tile_ms % pane:
        tile = format_duration(calendar.tile_ms)
        raise QuestionError(
            f"the view's panes do not tile windows of {calendar} in {calendar.zone}",
            found=f"panes of {format_duration(pane)}",
            expected=f"panes that divide {tile}",
            fix="ask in UTC, " * (calendar.zone != UTC_NAME and DAY_MS % pane == 0)
            + f"or declare the view with windows of {tile}: queries merge them",
        )


def _check_tiles(question: Question, declared: Window) -> None:
    pane = declared.pane_ms
    spans = {"window": question.window_ms, "every": question.every_ms, "cumulate": question.cumulate_ms}
    for name, span in spans.items():
        if span is not None and span % pane:
            below = span // pane * pane
            near = [f"'{format_duration(ms)}'" for ms in (below, below + pane) if ms]
            raise QuestionError(
                f"{name} is not a multiple of the view's pane",
                found=f"'{format_duration(span)}'",
                expected=f"a multiple of {format_duration(pane)}",
                fix=f"the nearest that work: {' and '.join(near)}",
            )


def _check_key(view: View, name: str, types: Mapping[str, Type]) -> Type:
    if name in types:
        return types[name]
    hint = did_you_mean(name, types)
    if hint is None and name in [output.name for output in outputs_of(view)]:
        hint = f"'{name}' is an aggregate, which having filters: --having \"{name} > 5\""
    raise QuestionError(
        f"view '{view.name}' has no key '{name}'",
        expected=", ".join(f"'{key}'" for key in types) or "no key: the view has none",
        fix=hint,
    )


def _refuse_time(question: Question) -> None:
    times = {
        "start": question.start,
        "end": question.end,
        "window": question.window_ms or question.calendar,
        "every": question.every_ms,
        "cumulate": question.cumulate_ms,
    }
    for name, value in times.items():
        if value is not None:
            raise QuestionError(
                f"view '{question.view}' has no window, so it takes no {name}",
                expected="a query by keys only",
                fix="declare the view with window(…) in GROUP BY to ask by time",
            )


def _last_end(question: Question, version: Version, end_ms: int | None) -> tuple[int | None, bool]:
    """The time by which windows must end, and whether it is certain that none does.

    A window is settled by its end, so a question for settled rows is one with an earlier end.
    """
    if not question.settled_only:
        return end_ms, False
    if question.all_time and end_ms is None:
        _refuse_settled(question, "a window without an end is never settled", "give an end")
    settled_ms = version.settled_ms
    if settled_ms is None or (question.all_time and end_ms is not None and end_ms > settled_ms):
        return end_ms, True
    return settled_ms if end_ms is None else min(end_ms, settled_ms), False


def _refuse_settled(question: Question, why: str, fix: str) -> None:
    if question.settled_only:
        raise QuestionError(f"{why}, so none of its rows is ever settled", found=SETTLED_ONLY, fix=fix)


@dataclass(frozen=True)
class Cell:
    """One (key, window) of a view; without bounds it is of all time."""

    key: Mapping[str, Value]
    windows: Windows | None
    start_ms: int | None
    end_ms: int | None
    session_us: tuple[int, int] | None = None  # the exact bounds of a session; its events are within the others

    @property
    def bounds(self) -> tuple[datetime | None, datetime | None]:
        """The start and the end of its window."""
        times_us = self.session_us or (None if ms is None else ms * 1000 for ms in (self.start_ms, self.end_ms))
        start, end = (None if us is None else EPOCH + timedelta(microseconds=us) for us in times_us)
        return start, end

    def question(self, view: str) -> Question:
        """The question whose answer is this cell alone."""
        where = (self.key,) if self.key else ()
        if self.session_us is not None:  # sessions are asked for by their ends
            end_ms = -(-self.session_us[1] // 1000)
            return Question(view, where, start=Bound(end_ms - 1), end=Bound(end_ms), having="")
        if self.start_ms is None or self.end_ms is None:
            return Question(view, where, having="")  # a row that HAVING leaves out is explained all the same
        size_ms = self.end_ms - self.start_ms
        bounds = Bound(self.start_ms), Bound(self.end_ms)
        return Question(view, where, start=bounds[0], end=bounds[1], window_ms=size_ms, every_ms=size_ms, having="")

    def window_at(self, ms: int) -> tuple[int, int] | None:
        """The last window that contains this time; None if there is none."""
        assert self.windows is not None, "a view without window has no times"
        return None if self.windows.session else self.windows.at(ms)


def find_cell(question: CellQuestion, snapshot: Snapshot, version: Version) -> Cell:
    """The cell of a question; raises QuestionError if the view has no such cell."""
    view = version.view
    row_question = Question(
        question.view,
        (question.key,) if question.key else (),
        window_ms=question.window_ms,
        every_ms=question.every_ms,
        calendar=question.calendar,
        zone=question.zone,
    )
    read_plan = plan(row_question, version)
    key = read_plan.where[0] if read_plan.where else {}
    missing = [name.name for name in view.keys if name.name not in key]
    if missing:
        raise QuestionError(
            f"a cell of view '{view.name}' has one value of each key",
            found=f"none of {', '.join(repr(name) for name in missing)}",
            expected=", ".join(f"{each.name}=…" for each in view.keys),
            fix=r"NULL is written \N",
        )
    if read_plan.windows is None:
        if question.at is not None:
            raise QuestionError(
                f"view '{view.name}' has no window, so it takes no at", expected="the keys of the cell only"
            )
        return Cell(key, None, None, None)
    cell = Cell(key, read_plan.windows, None, None)
    ms = _at_ms(question, version)
    if read_plan.has_sessions:
        return _find_session(cell, snapshot, version, read_plan, ms)
    window = cell.window_at(ms)
    if window is None:
        next_ms = (ms // read_plan.windows.every_ms + 1) * read_plan.windows.every_ms
        raise QuestionError(
            f"no window of view '{view.name}' contains that time",
            found=iso_ms(ms),
            expected=f"a time before {iso_ms(next_ms - read_plan.windows.every_ms + read_plan.windows.size_ms)} "
            f"or from {iso_ms(next_ms)} on",
        )
    if window[1] > LAST_MS:
        raise QuestionError(
            f"no window of view '{view.name}' contains that time",
            found=iso_ms(ms),
            expected="a time whose window ends in the year 9999 or before",
        )
    return Cell(key, read_plan.windows, *window)


def _find_session(cell: Cell, snapshot: Snapshot, version: Version, read_plan: ReadPlan, ms: int) -> Cell:
    """The session of a key that contains a time."""
    assert read_plan.windows is not None, "sessions are windows"
    ending_later = replace(read_plan, windows=replace(read_plan.windows, start_ms=ms))
    rows = [] if read_plan.empty else snapshot.rows(version, ending_later.selection(1))
    if not rows or rows[0][0] > ms:
        raise QuestionError(
            f"no session of view '{version.view.name}' with this key contains that time",
            found=iso_ms(ms),
            fix="a query for the key lists its sessions; give the window_start of one of them",
        )
    first_us, until_us = rows[0][-2:]
    # No other event of the key is between the last one of the session and its end.
    return replace(cell, start_ms=first_us // 1000, end_ms=until_us // 1000, session_us=(first_us, until_us))


def _at_ms(question: CellQuestion, version: Version) -> int:
    window = version.view.window
    assert window is not None, "only for a view with windows"
    if question.at is None:
        raise QuestionError(
            f"view '{question.view}' has windows, so a time must be given",
            found="no time",
            expected="any time in the window, such as its window_start",
            fix="give --at TIME (over HTTP and in Python: at)",
        )
    if not question.at.relative:
        if question.at.ms < 0:
            raise QuestionError("no pane contains that time", found=str(question.at), expected="a time from 1970 on")
        return question.at.ms
    if version.newest_us is None:
        raise QuestionError(f"view '{question.view}' has no event yet to count from", expected="a time in ISO 8601")
    newest_end = _end_of(version.newest_us, _grain_ms(window))
    return max(0, newest_end + min(question.at.ms, -1))  # 'now' is the end of the newest pane, and means that pane
