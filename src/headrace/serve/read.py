"""The rows of a page of windows, read from the store and composed where windows overlap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from headrace.serve.plan import ReadPlan
from headrace.serve.windows import COUNTS, slide
from headrace.store.base import Selection, Snapshot, Version

Row = tuple[Any, ...]
BUCKETS_AT_ONCE = 10_000
MOST_COUNTED = 50_000  # rows of partials; more distinct keys and windows than these are not counted


def read(snapshot: Snapshot, version: Version, plan: ReadPlan, most: int) -> list[Row]:
    """Rows of (window start, kept keys, events, corrections, batch events, partials), at most so many."""
    if plan.empty:
        return []
    if not plan.overlapping:
        return snapshot.rows(version, plan.selection(most))
    assert plan.windows is not None, "only windows overlap"
    pairs = [part.merge.pair for column in version.view.columns for part in column.aggregate.columns]
    buckets = _buckets(snapshot, version, plan.selection(BUCKETS_AT_ONCE))
    rows = slide(buckets, plan.windows, len(plan.by), [*COUNTS, *pairs], plan.after, newest_first=plan.newest_first)
    return list(islice(rows, most))


def count_more(
    snapshot: Snapshot, version: Version, plan: ReadPlan, last: Row, most_counted: int = MOST_COUNTED
) -> int | None:
    """How many rows follow the last one of a page; None where counting them would take long."""
    if plan.overlapping:
        return None  # their windows would have to be composed
    behind = replace(plan, after=last[: 1 + len(plan.by)])
    return snapshot.count_groups(version, behind.selection(None), most_counted)


def _buckets(snapshot: Snapshot, version: Version, selection: Selection) -> Iterator[Row]:
    """All buckets in order, read as far as they are needed."""
    while True:
        rows = snapshot.rows(version, selection)
        yield from rows
        if selection.limit is None or len(rows) < selection.limit:
            return
        selection = replace(selection, after=rows[-1][: 1 + len(selection.by)])
