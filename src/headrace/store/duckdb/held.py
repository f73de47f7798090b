"""Rows of a view held in memory while it does not change: many lookups cost one read of the view.

A lookup costs DuckDB about a millisecond to plan and to scan the speed table, whatever it finds. Where a version is
asked for many keys between two changes, all of its rows are read at once, and each key is found by its id.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from headrace.aggregate import Value
from headrace.define.model import View
from headrace.store.columns import partials_of
from headrace.store.key_ids import key_id_of
from headrace.store.selection import Selection
from headrace.store.version import Version

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import pyarrow as pa

ROWS_A_LOOKUP = 4_000  # reading so many rows takes about as long as one lookup
FIRST_LOOKUPS = 8  # before it is known how many rows a version has
MOST_BYTES = 64 << 20  # of one view
ROW_BYTES, SKETCH_BYTES = 200, 4_096  # at most, of a row beside its sketches and of a sketch
MOST_VIEWS = 8  # the one that changed first leaves

Row = tuple[Any, ...]


class HeldRows:
    """All rows of one version, in the order of their key ids."""

    def __init__(self, view: View, rows: pa.Table) -> None:
        import numpy as np  # takes 0.1 s to import: not for commands that look up a key

        self._names = [key.name for key in view.keys]
        # The ids are 16 bytes each, without NULL. They are hashes: half of one is hardly ever shared.
        halves = np.frombuffer(_values(rows.column(0)), dtype=">u8").reshape(-1, 2)
        order = np.lexsort((halves[:, 1], halves[:, 0]))
        self._high, self._low = (halves[:, half].astype("u8")[order] for half in (0, 1))
        self._rows = rows.drop_columns(rows.column_names[0]).take(order).combine_chunks()

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, view: View, selection: Selection, most: int) -> list[Row] | None:
        """The rows that the store would read for a selection by keys; None if it has to."""
        spans = self._spans(view, selection.where) if selection.after is None else None
        if spans is None or sum(end - start for start, end in spans) > most:
            return None
        at = [
            0,
            *(1 + self._names.index(name) for name in selection.by),
            *range(1 + len(self._names), len(self._rows.columns)),
        ]
        rows = chain.from_iterable(self._slice(start, end, at) for start, end in spans)
        first, last = selection.panes
        if first is None and last is None:
            return list(rows)
        return [row for row in rows if (first is None or row[0] >= first) and (last is None or row[0] < last)]

    def _spans(self, view: View, alternatives: Sequence[Mapping[str, Value]]) -> list[tuple[int, int]] | None:
        ids = {key_id_of(view, alternative) for alternative in alternatives}
        return None if None in ids else [self._span(id) for id in ids if id is not None]

    def _span(self, id: str) -> tuple[int, int]:
        start, end = _equal(self._high, int(id[:16], 16))
        first, last = _equal(self._low[start:end], int(id[16:], 16))
        return start + first, start + last

    def _slice(self, start: int, end: int, at: list[int]) -> list[Row]:
        columns = (self._rows.column(place).slice(start, end - start).to_pylist() for place in at)
        return list(zip(*columns, strict=True))


@dataclass
class Demand:
    """How often a version was asked for keys since its view changed, and before."""

    version: Version
    lookups: int = 0
    before: int = 0
    rows: int | None = None  # of the view, when it was last counted
    held: HeldRows | None = None
    reading: threading.Lock = field(default_factory=threading.Lock)


class Lookups:
    """Which versions are asked for many keys, and the rows that are held of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._demand: dict[str, Demand] = {}

    def count(self, version: Version, keys: int) -> Demand:
        """Count a lookup of some keys."""
        with self._lock:
            demand = self._demand.get(version.view.name)
            if demand is None or demand.version != version:
                self._demand.pop(version.view.name, None)
                demand = Demand(version, before=demand.lookups, rows=demand.rows) if demand else Demand(version)
                self._demand[version.view.name] = demand
                while len(self._demand) > MOST_VIEWS:
                    self._demand.pop(next(iter(self._demand)))
            demand.lookups += keys
            return demand


def pays(demand: Demand, rows: int | None) -> bool:
    """Whether reading all rows costs less than the lookups to come, which are expected to be as many as before."""
    lookups = max(demand.lookups, demand.before)
    if rows is None:
        return lookups >= FIRST_LOOKUPS
    parts = [part for _, part in partials_of(demand.version.view)]
    sketches = sum(part.merge.fold is None and part.batch_only is None for part in parts)
    sets = sum(part.batch_only.bytes_per_event for part in parts if part.batch_only)
    events = sum(table.events for table in demand.version.batch)
    small = rows * (ROW_BYTES + SKETCH_BYTES * sketches) + events * sets <= MOST_BYTES
    return small and rows <= lookups * ROWS_A_LOOKUP


def _values(column: pa.ChunkedArray) -> bytes:
    whole = column.combine_chunks()
    return b"".join(whole.to_pylist()) if whole.offset else bytes(whole.buffers()[2] or b"")[: 16 * len(whole)]


def _equal(ordered: np.ndarray, value: int) -> tuple[int, int]:
    import numpy as np  # takes 0.1 s to import: not for commands that look up a key

    target = np.uint64(value)
    return int(np.searchsorted(ordered, target, "left")), int(np.searchsorted(ordered, target, "right"))
