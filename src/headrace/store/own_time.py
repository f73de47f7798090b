"""The newest event time in partials of rows that have an event time of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.arrow import pa, pc, pq
from headrace.store.columns import OWN_NEWEST
from headrace.timing import later


def own_newest(parts: Sequence[str | Path] | Sequence[pa.Table]) -> int | None:
    """The newest event time, in us; None if there is no row, or if rows have the event time of their stream."""
    newest: int | None = None
    for part in parts:
        newest = later(newest, _newest(part))
    return newest


def _newest(part: str | Path | pa.Table) -> int | None:
    if not isinstance(part, pa.Table):
        if OWN_NEWEST not in pq.read_schema(part).names:
            return None
        part = pq.read_table(part, columns=[OWN_NEWEST], partitioning=None)
    newest: int | None = pc.max(part.column(OWN_NEWEST)).as_py() if OWN_NEWEST in part.column_names else None
    return newest
