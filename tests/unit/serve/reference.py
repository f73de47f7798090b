"""The expected answer, computed from events in plain Python, window by window."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from headrace.define.model import View
from headrace.language.calendar import Calendar
from tests.unit.store.partial_files import Event, given_of

Placed = tuple[int, Any, Any]  # a window: its place in the order, its start and end in ms or None
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rank(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    return (2,) if isinstance(value, float) and math.isnan(value) else (1, value)


def expected(
    view: View,
    events: Iterable[Event],
    *,
    by: tuple[str, ...],
    where: tuple[Mapping[str, Any], ...],
    start: int | None,
    end: int | None,
    size: int | None,
    every: int | None,
    settled_before_ms: int | None,
    all_time: bool = False,
    newest_first: bool = False,
    settled_only: bool = False,
    corrections: bool = False,
    windows_of: Callable[[int], Iterable[Placed]] | None = None,
) -> list[dict[str, Any]]:
    """The rows of all pages; `size` None is a view without window, `all_time` one window over [start, end).

    `windows_of` gives the windows that hold a time, if they are neither: those whose end lies in (start, end] count.
    """
    places = {key.name: i for i, key in enumerate(view.keys)}
    groups: dict[Any, list[Event]] = {}
    for event in events:
        if where and not any(all(rank(event.keys[places[k]]) == rank(v) for k, v in w.items()) for w in where):
            continue
        keys = tuple(rank(event.keys[places[name]]) for name in by)
        windows: Iterable[Placed]
        if all_time:
            windows = [(0, start, end)] if _between(event.at_ms, start, end) else []
        elif windows_of:
            windows = [
                (place, opens, closes)
                for place, opens, closes in windows_of(event.at_ms)
                if (start is None or closes > start) and (end is None or closes <= end)
            ]
        else:
            starts = _windows_of(event.at_ms, start, end, size, every)
            windows = [(each, None, None) if size is None else (each, each, each + size) for each in starts]
        for window in windows:
            groups.setdefault((window, keys), []).append(event)
    rows = []
    for window, keys in sorted(groups, key=lambda group: (-group[0][0] if newest_first else group[0][0], group[1])):
        members = groups[window, keys]
        row = {name: members[0].keys[places[name]] for name in by}
        _, opens, closes = window
        row["window_start"] = None if opens is None else EPOCH + timedelta(milliseconds=opens)
        row["window_end"] = None if closes is None else EPOCH + timedelta(milliseconds=closes)
        for column in view.columns:
            partial = column.aggregate.zero
            for event in members:
                partial = column.aggregate.merge(partial, column.aggregate.lift(*given_of(event, column)))
            row[column.name] = column.aggregate.present(partial)
        row["settled"] = closes is not None and settled_before_ms is not None and closes <= settled_before_ms
        if corrections:
            row |= {"events": len(members), "corrections": sum(event.correction for event in members)}
        if row["settled"] or not settled_only:
            rows.append(row)
    return rows


def calendar_window(calendar: Calendar, at_ms: int) -> tuple[int, int]:
    """The bounds of the window of a calendar that holds a time, by the local date and the rules of the zone."""
    zone = ZoneInfo(calendar.zone)
    today = (EPOCH + timedelta(milliseconds=at_ms)).astimezone(zone).date()
    if calendar.unit == "month":
        months = (today.year * 12 + today.month - 1) // calendar.count * calendar.count
        dates = [date(each // 12, each % 12 + 1, 1) for each in (months, months + calendar.count)]
    else:
        days = calendar.count * (7 if calendar.unit == "week" else 1)
        since = (today - date(1970, 1, 5 if calendar.unit == "week" else 1)).days
        first = today - timedelta(days=since % days)
        dates = [first, first + timedelta(days=days)]
    start, end = (_midnight_ms(each, zone) for each in dates)
    return start, end


def _midnight_ms(day: date, zone: ZoneInfo) -> int:
    return round(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000)


def _between(at: int, start: int | None, end: int | None) -> bool:
    return (start is None or at >= start) and (end is None or at < end)


def _windows_of(at: int, start: int | None, end: int | None, size: int | None, every: int | None) -> Iterable[int]:
    if size is None or every is None:
        return [0]
    origin = start or 0
    lowest, highest = (at - origin - size) // every, (at - origin) // every + 1
    starts = [origin + i * every for i in range(lowest, highest + 1)]
    return [
        s
        for s in starts
        if s <= at < s + size and (start is None or s + size > start) and (end is None or s + size <= end)
    ]


def same(a: Any, b: Any, abs_tol: float = 1e-6) -> bool:
    """Equal values; DOUBLEs to nine digits, since sums depend on order. NaN is itself."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[name], b[name]) for name in a)
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=abs_tol)
    return bool(a == b)


def _abs_tol(name: str) -> float:
    """A covariance is a small difference of products up to 1e17, of which a DOUBLE keeps 16 digits."""
    return 1e3 if name.startswith("covar") else 1e-6


def same_rows(rows: list[dict[str, Any]], expected_rows: list[dict[str, Any]]) -> bool:
    return len(rows) == len(expected_rows) and all(
        list(a) == list(b) and all(same(a[name], b[name], _abs_tol(name)) for name in a)
        for a, b in zip(rows, expected_rows, strict=True)
    )
