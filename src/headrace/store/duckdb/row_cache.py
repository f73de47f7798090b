"""Caches rows of a view in memory: many lookups cost one read of the view.

A lookup costs DuckDB about a millisecond to plan and to scan the speed table, whatever it finds. Where a version is
asked for many keys, all of its rows are read at once, and each key is found by its id, or by a scan where a question
has only some of the key's columns. A step of the speed layer adds its partials to the cached rows: rows of one
key and pane are merged when they are asked for, as are those of the two layers.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from itertools import chain
from typing import Any

from headrace.aggregate import Value
from headrace.define.model import View
from headrace.lazy import np, pa, pc
from headrace.store.key_ids import key_id_of
from headrace.store.partial_columns import partials_of
from headrace.store.selection import Selection
from headrace.store.version import Version

ROWS_A_LOOKUP = 4_000  # reading so many rows takes about as long as one lookup
FIRST_LOOKUPS = 8  # before it is known how many rows a version has
MOST_BYTES = 64 << 20  # of one view
ROW_BYTES, SKETCH_BYTES = 200, 4_096  # at most, of a row without its sketches and of a sketch
MOST_STEP_ROWS = 4  # times the rows that were read: with more rows of steps, they are read again
UNASKED_STEPS = 20  # without a lookup, before rows are dropped
MOST_VIEWS = 8  # the one that changed first leaves

PLAIN_TYPES = frozenset({"STRING", "BOOLEAN", "INT", "BIGINT", "DATE"})

Row = tuple[Any, ...]


class CachedRows:
    """Rows of one version, in the order of their key ids and panes."""

    def __init__(self, names: list[str], halves: np.ndarray, rows: pa.Table) -> None:
        self._names = names
        panes = rows.column(0).to_numpy()
        order = np.lexsort((panes, halves[:, 1], halves[:, 0]))
        self._halves = halves[order]
        # Searched by Python: NumPy lets go of the interpreter for each search, and waits for other threads to get it.
        self._high, self._low = (np.ascontiguousarray(self._halves[:, half]).data for half in (0, 1))
        self._panes = panes[order].data
        self._rows = rows.take(order).combine_chunks()
        self._columns = [_Column.of(column.combine_chunks()) for column in self._rows.columns]

    @classmethod
    def read(cls, view: View, rows: pa.Table) -> CachedRows:
        """Build the cache from rows whose first column is the key id, 16 bytes without NULL."""
        # The ids are hashes: half of one is hardly ever shared.
        halves = np.frombuffer(_values(rows.column(0)), dtype=">u8").reshape(-1, 2).astype("u8")
        return cls([key.name for key in view.keys], halves, rows.drop_columns(rows.column_names[0]))

    def __len__(self) -> int:
        return len(self._rows)

    def join(self, other: CachedRows) -> CachedRows:
        """The rows of both."""
        halves = np.concatenate([self._halves, other._halves])
        return CachedRows(self._names, halves, pa.concat_tables([self._rows, other._rows]))

    def find(self, ids: Iterable[tuple[int, int]], selection: Selection, most: int) -> list[Row] | None:
        """The rows of keys with these ids, by the halves of each; None if they are more."""
        spans = [self._span(*halves, *selection.panes) for halves in ids]
        if sum(end - start for start, end in spans) > most:
            return None
        columns = [self._columns[place] for place in self._places(selection)]
        pieces = [slice(start, end) for start, end in spans if end > start]
        tuples = (zip(*(column.values(column.array[piece]) for column in columns), strict=True) for piece in pieces)
        return list(chain.from_iterable(tuples))

    def scan(self, selection: Selection, most: int) -> list[Row] | None:
        """The rows with these values of some of the keys; None if they are more."""
        try:
            masks = [
                reduce(pc.and_kleene, (self._equal(name, value) for name, value in values.items()))
                for values in selection.where
            ]
        except (pa.ArrowException, UnicodeError, OverflowError):  # a value that the column cannot hold
            return None
        places = pc.indices_nonzero(reduce(pc.or_kleene, masks))
        if len(places) > most:
            return None
        columns = [self._columns[place] for place in self._places(selection)]
        tuples = zip(*(column.values(column.array.take(places)) for column in columns), strict=True)
        first, last = selection.panes
        return [row for row in tuples if (first is None or row[0] >= first) and (last is None or row[0] < last)]

    def _equal(self, name: str, value: Value) -> pa.ChunkedArray:
        column = self._rows.column(1 + self._names.index(name))
        return pc.is_null(column) if value is None else pc.equal(column, pa.scalar(value, column.type))

    def _span(self, high: int, low: int, first: int | None, last: int | None) -> tuple[int, int]:
        """The range of the rows of an id with panes in [first, last)."""
        start = bisect_left(self._high, high)
        end = bisect_right(self._high, high, start)
        start, end = bisect_left(self._low, low, start, end), bisect_right(self._low, low, start, end)
        if first is not None:
            start = bisect_left(self._panes, first, start, end)
        return start, end if last is None else bisect_left(self._panes, last, start, end)

    def _places(self, selection: Selection) -> list[int]:
        """The columns of the pane, of the keys of the selection, and of the partials."""
        keys = (1 + self._names.index(name) for name in selection.by)
        return [0, *keys, *range(1 + len(self._names), len(self._columns))]


@dataclass(frozen=True)
class _Column:
    """A column whose values are read many times, a few at a time."""

    array: pa.Array
    is_decimal: bool = False  # of decimals that are whole numbers: to make these of integers takes a tenth of the time

    @classmethod
    def of(cls, array: pa.Array) -> _Column:
        if pa.types.is_decimal(array.type) and array.type.scale == 0 and not array.null_count:
            with suppress(pa.ArrowInvalid):  # they have more than 64 bits
                return cls(array.cast(pa.int64()), True)
        return cls(array)

    def values(self, part: pa.Array) -> Iterable[Any]:
        """The values of a part of the array."""
        return map(Decimal, part.to_pylist()) if self.is_decimal else part.to_pylist()


@dataclass(frozen=True)
class CachedView:
    """The rows of a version: those that were read, and the partials of the steps since then."""

    rows: CachedRows
    steps: tuple[CachedRows, ...] = ()  # each has more than twice the rows of the next, so that there are few

    def find(self, view: View, selection: Selection, most: int) -> list[Row] | None:
        """The rows that the store would read for a selection by keys, in more parts; None if it has to."""
        if selection.after is not None or not all(_is_plain(view, values) for values in selection.where):
            return None
        ids = _ids(view, selection.where)
        rows: list[Row] = []
        for part in (self.rows, *self.steps):
            left = most - len(rows)
            more = part.scan(selection, left) if ids is None else part.find(ids, selection, left)
            if more is None:
                return None
            rows += more
        return rows

    def after(self, step: CachedRows | None) -> CachedView | None:
        """The rows after a step that added these partials, if any; None if they are too many."""
        if step is None:
            return self
        steps = list(self.steps)
        while steps and len(steps[-1]) <= 2 * len(step):
            step = steps.pop().join(step)
        steps.append(step)
        fits = sum(map(len, steps)) <= MOST_STEP_ROWS * max(len(self.rows), ROWS_A_LOOKUP)
        return CachedView(self.rows, tuple(steps)) if fits else None


@dataclass
class Demand:
    """Counts questions for keys of a version since its rows were cached or its view changed, and before."""

    version: Version
    lookups: int = 0
    before: int = 0
    rows: int | None = None  # of the view, when it was last counted
    cached: CachedView | None = None
    coming: tuple[Version, CachedView] | None = None  # the version and its rows once a step is committed
    unasked: int = 0  # steps since the last lookup
    reading: threading.Lock = field(default_factory=threading.Lock)


class Lookups:
    """Finds versions with many questions for keys, and caches their rows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._demand: dict[str, Demand] = {}

    def count(self, version: Version, keys: int) -> Demand:
        """Count a lookup of some keys."""
        with self._lock:
            demand = self._at(version)
            if demand is None:
                demand = self._demand.get(version.view.name)
                self._demand.pop(version.view.name, None)
                demand = Demand(version, before=demand.lookups, rows=demand.rows) if demand else Demand(version)
                self._demand[version.view.name] = demand
                while len(self._demand) > MOST_VIEWS:
                    self._demand.pop(next(iter(self._demand)))
            demand.lookups += keys
            demand.unasked = 0
            return demand

    def rows_of(self, version: Version, demand: Demand) -> CachedView | None:
        """The cached rows of a version."""
        with self._lock:
            return demand.cached if demand.version == version else None

    def cache(self, version: Version, demand: Demand, rows: CachedRows) -> None:
        """Cache the rows that were read of a version, unless it has changed."""
        with self._lock:
            if demand.version == version and demand.coming is None:
                demand.cached = CachedView(rows)

    def caches(self, version: Version) -> bool:
        """Return whether a step has to add its partials to the rows of a version, which it is about to change."""
        with self._lock:
            demand = self._at(version)
            if demand is None or demand.cached is None:
                return False
            demand.unasked += 1
            if demand.unasked > UNASKED_STEPS:
                demand.cached = None
            return demand.cached is not None

    def add(self, before: Version, after: Version, step: CachedRows | None) -> None:
        """A step that is about to be committed adds these partials to the rows of a version."""
        with self._lock:
            demand = self._at(before)
            cached = demand.cached.after(step) if demand and demand.cached else None
            if demand and cached:
                demand.coming = after, cached

    def _at(self, version: Version) -> Demand | None:
        """The demand of a version, also if a step has made it since the last lookup."""
        demand = self._demand.get(version.view.name)
        if demand is not None and demand.coming is not None and demand.coming[0] == version:
            (demand.version, demand.cached), demand.coming = demand.coming, None
        return demand if demand is not None and demand.version == version else None


def pays(demand: Demand, rows: int | None) -> bool:
    """Return whether reading all rows costs less than the next lookups, expected to be as many as before."""
    lookups = max(demand.lookups, demand.before)
    if rows is None:
        return lookups >= FIRST_LOOKUPS
    parts = [part for _, part in partials_of(demand.version.view)]
    sketches = sum(part.merge.fold is None and part.batch_only is None for part in parts)
    sets = sum(part.batch_only.bytes_per_event for part in parts if part.batch_only)
    events = sum(table.events for table in demand.version.batch)
    small = rows * (ROW_BYTES + SKETCH_BYTES * sketches) + events * sets <= MOST_BYTES
    return small and rows <= lookups * ROWS_A_LOOKUP


def _is_plain(view: View, values: Mapping[str, Value]) -> bool:
    """Return whether these values are equal in memory if, and only if, they are in the store."""
    types = {key.name: key.expression.type.name for key in view.keys}
    return bool(values or not types) and all(
        value is None or types[name] in PLAIN_TYPES for name, value in values.items()
    )


def _ids(view: View, alternatives: Sequence[Mapping[str, Value]]) -> list[tuple[int, int]] | None:
    """The halves of the ids of keys; None if one is incomplete, or cannot be computed here."""
    ids = {key_id_of(view, alternative) for alternative in alternatives}
    return None if None in ids else [(int(id[:16], 16), int(id[16:], 16)) for id in ids if id is not None]


def _values(column: pa.ChunkedArray) -> bytes:
    joined = column.combine_chunks()
    return b"".join(joined.to_pylist()) if joined.offset else bytes(joined.buffers()[2] or b"")[: 16 * len(joined)]
