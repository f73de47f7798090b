"""Resolves a question for one version of its view: bounds, windows, and what to read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.aggregate import Value
from headrace.define.durations import format_duration
from headrace.define.model import View
from headrace.define.shape import outputs_of
from headrace.errors import QuestionError, did_you_mean
from headrace.serve.cursor import read_cursor
from headrace.serve.question import SETTLED_ONLY, Question
from headrace.serve.times import Bound, iso_ms
from headrace.serve.values import key_value
from headrace.store.base import Selection, Version
from headrace.types import Type


@dataclass(frozen=True)
class Windows:
    """Windows [origin + i * every, … + size); a question is about those whose end lies in (start, end]."""

    size_ms: int
    every_ms: int
    start_ms: int | None = None
    end_ms: int | None = None

    @property
    def origin_ms(self) -> int:
        return self.start_ms or 0

    @property
    def bucket_ms(self) -> int:
        """The largest span that tiles every window."""
        return math.gcd(self.size_ms, self.every_ms)

    def first_ending_after(self, ms: int) -> int:
        """The start of the first window that ends after this time."""
        return self.origin_ms + ((ms - self.origin_ms - self.size_ms) // self.every_ms + 1) * self.every_ms

    @property
    def starts(self) -> tuple[int | None, int | None]:
        """The first and the last start of the requested windows."""
        first = None if self.start_ms is None else self.first_ending_after(self.start_ms)
        last = None if self.end_ms is None else self.first_ending_after(self.end_ms) - self.every_ms
        return first, last

    @property
    def panes(self) -> tuple[int | None, int | None]:
        """The times that these windows cover, closed-open."""
        first, last = self.starts
        return first, None if last is None else last + self.size_ms


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
        return self.windows is not None and self.windows.size_ms != self.windows.every_ms

    def selection(self, limit: int | None) -> Selection:
        """The first partials of this page, folded into windows or into the buckets that tile them."""
        if self.windows is None:
            return Selection(self.by, self.where, self.bounds, after=self.after, limit=limit)
        first, last = self.windows.panes
        if self.overlapping and self.after is not None:
            # The page continues in this window: buckets of earlier pages are in no remaining window.
            if self.newest_first:
                last = self.after[0] + self.windows.size_ms
            else:
                first = self.after[0]
        return Selection(
            by=self.by,
            where=self.where,
            panes=(first, last),
            bucket_ms=self.windows.bucket_ms,
            origin_ms=self.windows.origin_ms,
            after=None if self.overlapping else self.after,
            limit=limit,
            newest_first=self.newest_first,
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
    pane = view.window.pane_ms
    size, every = _spans(question, view.window.size_ms, view.window.slide_ms, pane)
    has_relative = any(bound and bound.relative for bound in (question.start, question.end))
    newest = None if version.newest_us is None else (version.newest_us // (1000 * pane) + 1) * pane
    bounds = (cursor.start_ms, cursor.end_ms) if cursor else _bounds(question, newest or 0, pane)
    last_end, none_settled = _last_end(question, version, bounds[1])
    return ReadPlan(
        by=by,
        types=key_types,
        where=where,
        windows=None if question.all_time else Windows(size, every, bounds[0], last_end),
        bounds=bounds,
        counted_from_ms=newest if has_relative else None,
        after=after,
        empty=none_settled or (has_relative and newest is None),
        newest_first=question.newest_first,
        skip=skip,
    )


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


def _spans(question: Question, size: int, slide: int, pane: int) -> tuple[int, int]:
    for name, span in (("window", question.window_ms), ("every", question.every_ms)):
        if span is not None and span % pane:
            below = span // pane * pane
            near = [f"'{format_duration(ms)}'" for ms in (below, below + pane) if ms]
            raise QuestionError(
                f"{name} is not a multiple of the view's pane",
                found=f"'{format_duration(span)}'",
                expected=f"a multiple of {format_duration(pane)}",
                fix=f"the nearest that work: {' and '.join(near)}",
            )
    if question.window_ms is None and question.every_ms is None:
        return size, slide
    alone = question.window_ms or question.every_ms
    assert alone is not None, "one of them is given"
    return question.window_ms or alone, question.every_ms or alone


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
        "window": question.window_ms,
        "every": question.every_ms,
    }
    for name, value in times.items():
        if value is not None:
            raise QuestionError(
                f"view '{question.view}' has no window, so it takes no {name}",
                expected="a question by keys only",
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
    settled_ms = None if version.settled_us is None else version.settled_us // 1000
    if settled_ms is None or (question.all_time and end_ms is not None and end_ms > settled_ms):
        return end_ms, True
    return settled_ms if end_ms is None else min(end_ms, settled_ms), False


def _refuse_settled(question: Question, why: str, fix: str) -> None:
    if question.settled_only:
        raise QuestionError(f"{why}, so none of its rows is ever settled", found=SETTLED_ONLY, fix=fix)
