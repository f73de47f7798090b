"""Fold a few rows of partials in Python, just as a store's SQL would."""

from __future__ import annotations

import math
from typing import Any

from headrace.aggregate import SUM, Merge, Value
from headrace.define.model import View
from headrace.store.columns import COUNTED, shown_partials
from headrace.store.selection import Selection

Row = tuple[Any, ...]


def fold_few(view: View, selection: Selection, rows: list[Row]) -> list[Row]:
    """Group rows of (pane, kept keys, events, corrections, batch events, partials), merge, order and cut."""
    size, origin = selection.bucket_ms, selection.origin_ms
    width = 1 + len(selection.by)
    merges = [*(SUM for _ in COUNTED), *(part.merge for _, part in shown_partials(view))]
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
