"""The expected answer, computed from events in plain Python, window by window."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.define.model import View
from tests.unit.store.partial_files import Event, given_of

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
) -> list[dict[str, Any]]:
    """The rows of all pages; `size` None is a view without window, `all_time` one window over [start, end)."""
    places = {key.name: i for i, key in enumerate(view.keys)}
    groups: dict[Any, list[Event]] = {}
    for event in events:
        if where and not any(all(rank(event.keys[places[k]]) == rank(v) for k, v in w.items()) for w in where):
            continue
        keys = tuple(rank(event.keys[places[name]]) for name in by)
        if all_time:
            windows: Iterable[int] = [0] if _between(event.at_ms, start, end) else []
        else:
            windows = _windows_of(event.at_ms, start, end, size, every)
        for window in windows:
            groups.setdefault((window, keys), []).append(event)
    rows = []
    for window, keys in sorted(groups, key=lambda group: (-group[0] if newest_first else group[0], group[1])):
        members = groups[window, keys]
        row = {name: members[0].keys[places[name]] for name in by}
        if all_time:
            opens, closes = start, end
        else:
            opens, closes = (None, None) if size is None else (window, window + size)
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


def same(a: Any, b: Any) -> bool:
    """Equal values; DOUBLEs to nine digits, since sums depend on order. NaN is itself."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6)
    return bool(a == b)


def same_rows(rows: list[dict[str, Any]], expected_rows: list[dict[str, Any]]) -> bool:
    return len(rows) == len(expected_rows) and all(
        list(a) == list(b) and all(same(a[name], b[name]) for name in a)
        for a, b in zip(rows, expected_rows, strict=True)
    )
