"""Fold a few rows of partials in Python, just as the store's SQL would."""

from __future__ import annotations

import math
from typing import Any

from headrace.aggregate import SUM, Value
from headrace.define.model import View
from headrace.store.base import Selection
from headrace.store.tables import partials_of

Row = tuple[Any, ...]


def fold_few(view: View, selection: Selection, rows: list[Row]) -> list[Row]:
    """Group rows of (bucket, kept keys, events, corrections, partials), merge, order and cut."""
    width = 1 + len(selection.by)
    pairs = [SUM.pair, SUM.pair, *(part.merge.pair for _, part in partials_of(view))]
    groups: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        place = tuple(map(rank, row[:width]))
        before = groups.get(place)
        if before is None:
            groups[place] = row
            continue
        merged = (
            b if a is None else a if b is None else pair(a, b)
            for pair, a, b in zip(pairs, before[width:], row[width:], strict=True)
        )
        groups[place] = before[:width] + tuple(merged)
    ordered = [groups[place] for place in sorted(groups)]
    return ordered if selection.limit is None else ordered[: selection.limit]


def rank(value: Value) -> tuple[Any, ...]:
    """The value's place in the store's order: NULL, then values, then NaN, which equals itself."""
    if value is None:
        return (0,)
    return (2,) if isinstance(value, float) and math.isnan(value) else (1, value)
