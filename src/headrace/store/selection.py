"""The partials that a store reads, and the buckets of time that it merges them into; in Python for a few rows."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.aggregate import SUM, Merge, Value
from headrace.define.model import View
from headrace.language.calendar import Calendar
from headrace.store.partial_columns import COUNTED, shown_partials


@dataclass(frozen=True)
class Selection:
    """The partials to read, and how to group them before they are presented."""

    by: tuple[str, ...]  # keys to keep; the others are merged
    where: tuple[Mapping[str, Value], ...] = ()  # alternatives, each key = value (None: IS NULL); () is all
    panes: tuple[int | None, int | None] = (None, None)  # pane starts in [from, to)
    bucket_ms: int | None = None  # panes merge into buckets of this size; None: all into one
    origin_ms: int = 0  # buckets start at origin + i * bucket
    after: Sequence[Value] | None = None  # (bucket, *by) of the last row of the page before
    limit: int | None = None
    newest_first: bool = False  # the order of the buckets; keys are in ascending order
    calendar: Calendar | None = None  # buckets are its windows, whatever bucket_ms is
    step_ms: int = 0  # of a calendar: buckets are steps of its windows, counted from their start
    windows: tuple[tuple[int, int], ...] = ()  # of a calendar: start and end of those that hold panes, ascending
    sessions: bool = False  # panes merge into sessions, whatever bucket_ms is; a bucket is the start of one
    session_ends: tuple[int | None, int | None] = (None, None)  # sessions that end in (from, to]

    def with_panes_in(self, days_ms: Sequence[int]) -> Selection:
        """Keep the windows of its calendar that share time with these days; others hold no pane."""
        assert self.calendar is not None, "only windows of a calendar differ in length"
        return replace(self, windows=tuple(self.calendar.windows(days_ms)))

    def bucket_of(self, pane_ms: int) -> int:
        """The start of the bucket of a calendar that holds a pane."""
        start, _ = self._window_at(pane_ms)
        return start + (pane_ms - start) // self.step_ms * self.step_ms if self.step_ms else start

    def end_of(self, bucket_ms: int) -> int:
        """The end of the bucket that begins here."""
        if self.calendar is None:
            assert self.bucket_ms is not None, "all time in one bucket has no end"
            return bucket_ms + self.bucket_ms
        _, end = self._window_at(bucket_ms)
        return min(bucket_ms + self.step_ms, end) if self.step_ms else end

    def _window_at(self, ms: int) -> tuple[int, int]:
        """The window that holds a time; where nothing is stored, one is computed."""
        at = bisect_right(self.windows, ms, key=lambda window: window[0]) - 1
        if at >= 0 and ms < self.windows[at][1]:
            return self.windows[at]
        assert self.calendar is not None, "only windows of a calendar differ in length"
        start = self.calendar.start_of(ms)
        return start, self.calendar.end_of(start)


Row = tuple[Any, ...]


def ends_within(until_us: int, ends_ms: tuple[int | None, int | None]) -> bool:
    """Whether a session with this end is among those that end in (from, to]."""
    after, last = ends_ms
    return (after is None or until_us > after * 1000) and (last is None or until_us <= last * 1000)


def fold_in_python(view: View, selection: Selection, rows: list[Row]) -> list[Row]:
    """Group rows of (pane, kept keys, events, corrections, batch events, partials), merge, order and cut."""
    size, origin = selection.bucket_ms, selection.origin_ms
    width = 1 + len(selection.by)
    merges = [*(SUM for _ in COUNTED), *(part.merge for _, part in shown_partials(view))]
    if selection.sessions:
        return _sessions(merges, selection, rows)
    equal: dict[Row, list[Row]] = {}
    for row in rows:
        if selection.calendar:
            bucket = selection.bucket_of(row[0])
        else:
            bucket = origin if size is None else row[0] - (row[0] - origin) % size
        equal.setdefault((bucket, *row[1:width]), []).append(row)
    groups: dict[Row, list[Row]] = {}
    for place, members in equal.items():  # values that are not equal to themselves are of one group, too
        groups.setdefault((place[0], *map(rank, place[1:])), []).extend(members)
    in_order = sorted(groups, key=lambda place: (-place[0], place[1:])) if selection.newest_first else sorted(groups)
    places = in_order[: selection.limit]
    return [(place[0], *groups[place][0][1:width], *_merged(merges, groups[place], width)) for place in places]


def _sessions(merges: list[Merge], selection: Selection, rows: list[Row]) -> list[Row]:
    """The same for sessions: the first and the last time of each end its row."""
    width, sign = 1 + len(selection.by), -1 if selection.newest_first else 1
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(map(rank, row[1:width])), []).append(row)
    placed: list[tuple[Row, Row]] = []
    for place, members in groups.items():
        for session in split_sessions(members):
            merged = _merged(merges, session, width)
            if ends_within(merged[-1], selection.session_ends):
                start = merged[-2] // 1000
                placed.append(((sign * start, place), (start, *session[0][1:width], *merged)))
    last = selection.after
    if last is not None:
        behind = (sign * int(last[0]), tuple(map(rank, last[1:])))
        placed = [each for each in placed if each[0] > behind]
    return [row for _, row in sorted(placed, key=lambda each: each[0])][: selection.limit]


def split_sessions(rows: list[Row]) -> Iterator[list[Row]]:
    """The rows of one key by sessions: one goes on with an event that comes at its end or before."""
    session: list[Row] = []
    until_us = 0
    for row in sorted(rows, key=lambda row: row[-2]):
        if session and row[-2] > until_us:
            yield session
            session = []
        until_us = max(until_us, row[-1]) if session else row[-1]
        session.append(row)
    if session:
        yield session


def _merged(merges: list[Merge], rows: list[Row], width: int) -> Row:
    if len(rows) == 1:
        return rows[0][width:]
    columns = ([row[at] for row in rows if row[at] is not None] for at in range(width, width + len(merges)))
    return tuple(merge.merge(values) if values else None for merge, values in zip(merges, columns, strict=True))


def rank(value: Value) -> tuple[Any, ...]:
    """The value's place in the store's order: NULL, then values, then NaN, which equals itself."""
    if value is None:
        return (0,)
    return (2,) if isinstance(value, float) and math.isnan(value) else (1, value)
