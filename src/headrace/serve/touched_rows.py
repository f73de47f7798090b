"""Reads the rows of a view that hold touched cells: around each key, the span of time that its windows cover."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.serve.read_plan import ReadPlan
from headrace.serve.windows import BUCKET_COUNTS, compose
from headrace.store.partial_columns import FROM, KEY_ID, PANE, TO
from headrace.store.store_contract import Snapshot
from headrace.store.version import Version

Row = tuple[Any, ...]
Span = tuple[int, int]


def spans_of(cells: pa.Table, around: Mapping[int, Span]) -> pa.Table:
    """The keys and windows of cells, each once. `around` has windows by pane; cells of other panes are left out."""
    panes = np.array(sorted(around), dtype=np.int64)
    bounds = np.array([around[pane] for pane in panes.tolist()], dtype=np.int64).reshape(-1, 2)
    touched = cells.column(PANE).to_numpy()
    places = np.minimum(np.searchsorted(panes, touched), len(panes) - 1)
    inside = panes[places] == touched
    spans = bounds[places[inside]]
    ids = cells.column(KEY_ID).filter(pa.array(inside))
    table = pa.table({KEY_ID: ids, FROM: spans[:, 0], TO: spans[:, 1]})
    return table.group_by([KEY_ID, FROM, TO], use_threads=False).aggregate([])


def span_table(ids: Iterable[str], spans: Iterable[Span]) -> pa.Table:
    """One span for each key."""
    starts, ends = zip(*spans, strict=True)
    return pa.table({KEY_ID: list(ids), FROM: pa.array(starts, pa.int64()), TO: pa.array(ends, pa.int64())})


def hull(spans: Iterable[Span]) -> Span:
    """The time from the first start to the last end."""
    starts, ends = zip(*spans, strict=True)
    return min(starts), max(ends)


@dataclass(frozen=True)
class TouchedRows:
    """Reads the rows of a version that hold touched cells."""

    snapshot: Snapshot
    version: Version
    plan: ReadPlan  # of the view's default question
    on_close: bool  # only rows of windows that were settled

    def rows_of(self, cells: pa.Table, settled_ms: int | None) -> list[Row]:
        """The rows that hold these cells, as they are now, with the id of the key after that of the window.

        With `on_close` those of windows that end by `settled_ms`.
        """
        panes = cells.column(PANE).unique().to_pylist()
        around = {pane: self._around(pane) for pane in panes if self._counts(pane, settled_ms)}
        around = {pane: span for pane, span in around.items() if span[0] < span[1]}
        if not around:
            return []
        if self.plan.overlapping:
            return self._compose(cells, around, settled_ms if self.on_close else None)
        selection = replace(self.plan.selection(None), panes=hull(around.values()))
        return self.snapshot.changed(self.version, selection, spans_of(cells, around))

    def holds_any(self, id: int, panes: Iterable[int]) -> bool:
        """Whether a window holds one of these panes; without windows it holds all."""
        start, end = self.plan.windows.bounds(id) if self.plan.windows else (-math.inf, math.inf)
        return any(start <= pane < end for pane in panes)

    def _compose(self, cells: pa.Table, around: dict[int, Span], closed_ms: int | None) -> list[Row]:
        """Overlapping windows: those that hold a touched cell, from all buckets of its key around it."""
        touched = {id: [pane for pane in panes if pane in around] for id, panes in panes_of(cells).items()}
        touched = {id: panes for id, panes in touched.items() if panes}
        spans = {id: (around[min(panes)][0], around[max(panes)][1]) for id, panes in touched.items()}
        selection = replace(self.plan.selection(None), panes=hull(spans.values()))
        buckets = self.snapshot.changed(self.version, selection, span_table(spans.keys(), spans.values()))
        windows = self.plan.windows
        assert windows is not None, "only windows overlap"
        pairs = [part.merge.pair for column in self.version.view.columns for part in column.aggregate.columns]
        return [
            row
            for row in compose(buckets, windows, 1 + len(self.plan.by), [*BUCKET_COUNTS, *pairs], None)
            if self.holds_any(row[0], touched[row[1]]) and (closed_ms is None or windows.bounds(row[0])[1] <= closed_ms)
        ]

    def _counts(self, pane: int, settled_ms: int | None) -> bool:
        """Whether rows that hold a pane are to be sent now: with `on_close` one of them must have been settled."""
        return not self.on_close or self._has_settled(pane, settled_ms)

    def _around(self, pane: int) -> Span:
        return self.plan.windows.around(pane) if self.plan.windows else (pane, pane + 1)

    def _has_settled(self, pane: int, settled_ms: int | None) -> bool:
        """Whether a window that holds a pane was settled by then."""
        windows = self.plan.windows
        if windows is None or settled_ms is None:
            return False
        return windows.bounds(windows.first_ending_after(pane))[1] <= settled_ms


def panes_of(cells: pa.Table) -> dict[str, list[int]]:
    """The panes of cells by the id of their key."""
    panes: dict[str, list[int]] = {}
    for id, pane in zip(cells.column(KEY_ID).to_pylist(), cells.column(PANE).to_pylist(), strict=True):
        panes.setdefault(id, []).append(pane)
    return panes
