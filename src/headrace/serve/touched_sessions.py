"""Reads the sessions of a view that hold touched cells, and those that a late event has merged with others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.store.store_contract import Snapshot
from headrace.store.version import Version

Row = tuple[Any, ...]
Settled = tuple[int | None, int | None]  # the time by which sessions were settled, before and now


@dataclass(frozen=True)
class TouchedSessions:
    """Reads the sessions of a version that were touched; each row ends with its first and last time.

    Sessions only grow, so that a reader knows one by its key and its first event: where that event is not the first
    one any more, the session that the reader has is removed.
    """

    snapshot: Snapshot
    version: Version

    def holding(self, cells: pa.Table) -> list[Row]:
        """The sessions that hold these cells."""
        return [_without_id(row) for row in self.snapshot.sessions(self.version, cells)]

    def between(self, after: int, upto: int, now: int, settled_ms: Settled | None) -> tuple[list[Row], list[Row]]:
        """The sessions that were touched at the ticks (after, upto], as they are now, and those that are removed.

        What is touched again by the tick `now` is left out: it comes then. With `settled_ms` the reader has only the
        sessions that were settled: those that are not any more are removed as well.
        """
        rows = self.snapshot.sessions(self.version, self.snapshot.touched(self.version, after, upto))
        before = self.snapshot.touched_sessions(self.version, after, upto)
        again, later = set[tuple[str, int]](), set[tuple[str, int]]()
        if upto < now:
            cells = self.snapshot.touched_again(self.version, after, upto)
            again = {(row[1], row[-2]) for row in self.snapshot.sessions(self.version, cells)}
            later = {(id, first_us) for id, first_us, _ in self.snapshot.touched_sessions(self.version, upto, now)}
        current = {(row[1], row[-2]) for row in rows}
        if settled_ms is not None:
            had_ms, now_ms = settled_ms
            before = [each for each in before if _is_settled(each[2], had_ms)]
            current = {(row[1], row[-2]) for row in rows if _is_settled(row[-1], now_ms)}
        keys = {row[1]: row[2 : 2 + len(self.version.view.keys)] for row in rows}
        removed = [
            (first_us // 1000, *keys[id], first_us, until_us)
            for id, first_us, until_us in before
            if (id, first_us) not in current and (id, first_us) not in later
        ]
        if settled_ms is not None:
            rows = [row for row in rows if _is_settled(row[-1], settled_ms[0])]
        return [_without_id(row) for row in rows if (row[1], row[-2]) not in again], removed


def _is_settled(until_us: int, settled_ms: int | None) -> bool:
    return settled_ms is not None and until_us <= settled_ms * 1000


def _without_id(row: Row) -> Row:
    return (row[0], *row[2:])
