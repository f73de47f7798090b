"""What a snapshot has to give for a selection, computed from the events in plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from headrace.define.model import View
from headrace.store.partial_columns import COUNTED
from headrace.store.selection import Selection
from tests.unit.serve.reference import calendar_window, same
from tests.unit.store.partial_files import Event, given_of

Row = tuple[Any, ...]


def expected(view: View, batch: Sequence[Event], speed: Sequence[Event], selection: Selection) -> list[Row]:
    """Rows of (bucket, kept keys, events, corrections, events of batch tables, presented values)."""
    names = [key.name for key in view.keys]
    pane_ms = view.window.pane_ms if view.window else 0
    groups: dict[Row, list[tuple[Event, bool]]] = {}
    for event, in_batch in [*((event, True) for event in batch), *((event, False) for event in speed)]:
        pane = event.at_ms // pane_ms * pane_ms if pane_ms else 0
        keys = dict(zip(names, event.keys, strict=True))
        if _is_selected(selection, keys, pane):
            kept = [keys[name] for name in selection.by]
            groups.setdefault(_place(selection, pane, kept), []).append((event, in_batch))
    places = sorted(groups)
    if selection.after is not None:
        last = _order(selection, selection.after[0], selection.after[1:])
        places = [place for place in places if place > last]
    rows = []
    for place in places[: selection.limit]:
        bucket = abs(place[0])
        members = groups[place]
        keys = dict(zip(names, members[0][0].keys, strict=True))
        counts = (len(members), 0, sum(in_batch for _, in_batch in members))
        rows.append((bucket, *(keys[name] for name in selection.by), *counts, *_present(view, members)))
    return rows


def presented(view: View, selection: Selection, rows: Sequence[Row]) -> list[Row]:
    """The same of a snapshot's rows."""
    width, given = 1 + len(selection.by) + len(COUNTED), []
    for row in rows:
        partials = iter(row[width:])
        values = [c.aggregate.present(tuple(next(partials) for _ in c.aggregate.columns)) for c in view.columns]
        given.append((*row[:width], *values))
    return given


def same_rows(a: Sequence[Row], b: Sequence[Row]) -> bool:
    return len(a) == len(b) and all(all(map(same, x, y)) and len(x) == len(y) for x, y in zip(a, b, strict=True))


def _present(view: View, members: Sequence[tuple[Event, bool]]) -> list[Any]:
    values = []
    for column in view.columns:
        merged = column.aggregate.zero
        for event, _ in members:
            merged = column.aggregate.merge(merged, column.aggregate.lift(*given_of(event, column)))
        values.append(column.aggregate.present(merged))
    return values


def _is_selected(selection: Selection, keys: dict[str, Any], pane: int) -> bool:
    start, end = selection.panes
    within = (start is None or pane >= start) and (end is None or pane < end)
    alternatives = (all(same(keys[name], value) for name, value in each.items()) for each in selection.where)
    return within and (not selection.where or any(alternatives))


def _place(selection: Selection, pane: int, keys: Sequence[Any]) -> Row:
    size, origin = selection.bucket_ms, selection.origin_ms
    if selection.calendar:
        start, _ = calendar_window(selection.calendar, pane)
        step = selection.step_ms
        return _order(selection, start + (pane - start) // step * step if step else start, keys)
    return _order(selection, origin if size is None else pane - (pane - origin) % size, keys)


def _order(selection: Selection, bucket: int, keys: Sequence[Any]) -> Row:
    return (-bucket if selection.newest_first else bucket, *map(_rank, keys))


def _rank(value: Any) -> tuple[Any, ...]:
    """NULL, then values, then NaN."""
    if value is None:
        return (0,)
    return (2,) if isinstance(value, float) and math.isnan(value) else (1, value)
