"""Spans of time around touched cells, as the store takes them: for each key, from where to where its rows are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from headrace.store.partial_columns import FROM, KEY_ID, PANE, TO

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
