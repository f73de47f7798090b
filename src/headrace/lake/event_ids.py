"""Ids of events as sorted arrays: 128 bits of a hash, the event time and the position of each.

A run is a file of such entries, which workers map into memory. It is no part of the lake: when one is lost or in doubt,
its entries are read from the lake again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.duckdb_connections import open_duckdb
from headrace.engine.duckdb_terms import duckdb_name
from headrace.lake.table_schema import POSITION
from headrace.language.terms import quote

Int64s = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
NAMES = ("high", "low", "time_us", "position")  # the columns of a run, 8 bytes of each entry
DUPLICATE = "duplicate"  # the reason of dead letters that repeat an event
LONGEST_ID = 80  # characters of a value that a reason shows


@dataclass(frozen=True)
class Entries:
    """Events that counted, sorted by hash and then by time, unless it says otherwise."""

    high: Hashes  # half of the hash
    low: Hashes  # the other half
    time_us: Int64s
    position: Int64s

    def __len__(self) -> int:
        return len(self.high)

    def take(self, which: npt.NDArray[Any]) -> Entries:
        """The entries at these indexes, or where these flags are true."""
        return Entries(self.high[which], self.low[which], self.time_us[which], self.position[which])

    def sort(self) -> Entries:
        """Return the entries sorted. Entries that consist of a few sorted parts take linear time."""
        return self.take(_sorted_order(lambda name: getattr(self, name)))

    @classmethod
    def join(cls, parts: Sequence[Entries]) -> Entries:
        """All of them, in their order."""
        return cls(*(_join(parts, name) for name in NAMES))

    def find(self, events: Entries, within_us: int) -> tuple[Int64s, Int64s]:
        """Find events, sorted, that repeat an entry: their indexes, and the position of that entry for each."""
        which = self._with_same_half(events.high)
        if not len(which):
            return which, which
        candidates = events.take(which)
        start, end = (np.searchsorted(self.high, candidates.high, side) for side in ("left", "right"))
        place = self._place(candidates, start, end)
        first = np.full(len(which), -1, np.int64)
        # Of the entries of an id, the nearest in time decide: the one before and the one after.
        for at in (place, place - 1):
            inside = (at >= start) & (at < end)
            near = np.where(inside, at, 0)
            repeats = (
                inside
                & (self.low[near] == candidates.low)
                & (np.abs(self.time_us[near] - candidates.time_us) < within_us)
            )
            first = np.where(repeats, self.position[near], first)
        repeated = first >= 0
        return which[repeated], first[repeated]

    def _with_same_half(self, high: Hashes) -> Int64s:
        """The indexes of those, of sorted halves of hashes, that an entry has: of most events there are none."""
        if not len(self) or not len(high):
            return np.empty(0, np.int64)
        if len(self) < len(high):  # the fewer are searched in the more
            at = np.minimum(np.searchsorted(high, self.high), len(high) - 1)
            common = self.high[high[at] == self.high]
            return np.flatnonzero(np.isin(high, common)) if len(common) else np.empty(0, np.int64)
        at = np.minimum(np.searchsorted(self.high, high), len(self) - 1)
        return np.flatnonzero(self.high[at] == high)

    def _place(self, events: Entries, start: Int64s, end: Int64s) -> Int64s:
        """The first entry in [start, end) of each event that is not before it by the rest of the hash and the time."""
        start, end = start.copy(), end.copy()
        while True:
            open_ = start < end
            if not open_.any():
                return start
            middle = np.where(open_, (start + end) // 2, 0)
            low = self.low[middle]
            before = (low < events.low) | ((low == events.low) & (self.time_us[middle] < events.time_us))
            start = np.where(open_ & before, middle + 1, start)
            end = np.where(open_ & ~before, middle, end)


def _join(parts: Sequence[Entries], name: str) -> npt.NDArray[Any]:
    return np.concatenate([getattr(part, name) for part in parts])


def _sorted_order(column: Callable[[str], npt.NDArray[Any]]) -> Int64s:
    """The order of entries, whose columns are given by name, by hash and time."""
    high = column("high")
    order = np.argsort(high, kind="stable")
    high = high[order]
    tied = with_equal_neighbour(high)
    if tied.any():
        which = order[tied]
        order[tied] = which[np.lexsort((column("time_us")[which], column("low")[which], high[tied]))]
    return order


def with_equal_neighbour(values: npt.NDArray[Any]) -> Flags:
    """Find the sorted values that occur more than once."""
    same: Flags = values[1:] == values[:-1]
    before, after = np.append(same, False), np.append(False, same)
    tied: Flags = (before | after)[: len(values)]
    return tied


@dataclass(frozen=True)
class Run:
    """A file of sorted entries, and the first and last time of these."""

    path: str
    count: int
    first_us: int
    last_us: int

    def read(self) -> Entries:
        """Read its entries, mapped into memory. Raises OSError or ValueError if the file has changed."""
        if Path(self.path).stat().st_size != self.count * len(NAMES) * 8:
            raise ValueError(f"'{self.path}' has changed since it was written")
        columns = np.memmap(self.path, np.int64, "r", shape=(len(NAMES), self.count))
        high, low, time_us, position = (np.asarray(column) for column in columns)
        return Entries(high.view(np.uint64), low.view(np.uint64), time_us, position)


def write_run(path: Path, entries: Entries) -> Run:
    """A run of these entries, which are sorted; there is at least one."""
    with path.open("wb") as file:
        for name in NAMES:
            file.write(np.ascontiguousarray(getattr(entries, name)).data)
    return _run(path, entries.time_us)


def _run(path: Path, time_us: Int64s) -> Run:
    return Run(str(path), len(time_us), int(time_us.min()), int(time_us.max()))


def merge_runs(runs: Sequence[Run], path: Path, keep: Callable[[Int64s], Flags]) -> Run | None:
    """One run of those entries of several whose times are kept; None if there are none.

    A column at a time: it needs some 24 bytes of memory for each entry.
    """
    parts = [run.read() for run in runs]
    order = _sorted_order(lambda name: _join(parts, name))
    order = order[keep(_join(parts, "time_us")[order])]
    if not len(order):
        return None
    with path.open("wb") as file:
        for name in NAMES:
            file.write(_join(parts, name)[order].data)
    return _run(path, _join(parts, "time_us")[order])


def id_columns(columns: Sequence[str], time_column: str) -> list[str]:
    """The columns of events that `read_ids` needs."""
    return list(dict.fromkeys([POSITION, time_column, *columns]))


def read_ids(rows: pa.Table, columns: Sequence[str], time_column: str) -> tuple[Entries, Int64s]:
    """The ids of events, in their order, and the index of each event. Those with NULL in a column are left out."""
    has_id = _all_valid(rows, columns)
    if has_id is not None:
        rows = rows.filter(pa.array(has_id))
    digests = _digests(rows.select(list(dict.fromkeys(columns))), tuple(columns))
    time_us, position = (
        np.asarray(rows.column(name).cast(pa.int64()).to_numpy(), np.int64) for name in (time_column, POSITION)
    )
    index = np.arange(len(rows)) if has_id is None else np.flatnonzero(has_id)
    return Entries(digests[:, 0], digests[:, 1], time_us, position), index


def _all_valid(rows: pa.Table, columns: Sequence[str]) -> Flags | None:
    """Mark the rows that have a value in all of these columns; None if all do."""
    if not any(rows.column(name).null_count for name in columns):
        return None
    valid = np.ones(len(rows), bool)
    for name in columns:
        valid &= rows.column(name).is_valid().to_numpy()
    return valid


def _digests(ids: pa.Table, columns: tuple[str, ...]) -> Hashes:
    """MD5 of a text that equal ids, and no others, have. Nobody can make an id that has the hash of a given one."""
    for number, field in enumerate(ids.schema):
        if pa.types.is_temporal(field.type):
            kind = pa.int32() if pa.types.is_date32(field.type) else pa.int64()
            ids = ids.set_column(number, field.name, ids.column(number).cast(kind))
        elif pa.types.is_floating(field.type):
            ids = ids.set_column(number, field.name, pc.add(ids.column(number), 0.0))  # -0.0 and 0.0 are one id
    texts = [f"CAST({duckdb_name(name)} AS VARCHAR)" for name in columns]
    parts = texts if len(texts) == 1 else [f"length({text}), ':', {text}" for text in texts]
    connection = _connection()
    connection.register("ids", ids)
    try:
        table = connection.sql(f"SELECT md5_number(concat({', '.join(parts)})) FROM ids").to_arrow_table()
    finally:
        connection.unregister("ids")
    values = [chunk for chunk in table.column(0).chunks if len(chunk)]
    assert pa.types.is_decimal(table.schema.types[0]), "DuckDB has no Arrow type for 128 bits, and uses this one"
    halves = [np.frombuffer(memoryview(each.buffers()[1]), np.uint64)[2 * each.offset :] for each in values]
    digests = [half[: 2 * len(each)].reshape(-1, 2) for half, each in zip(halves, values, strict=True)]
    return np.concatenate(digests) if digests else np.empty((0, 2), np.uint64)


_of_thread = threading.local()


def _connection() -> duckdb.DuckDBPyConnection:
    """Each thread has its own: a table that one registers would replace that of another."""
    if not hasattr(_of_thread, "connection"):
        _of_thread.connection = open_duckdb(spill="", preserve_insertion_order=True)
    connection: duckdb.DuckDBPyConnection = _of_thread.connection
    return connection


def describe_ids(rows: pa.Table, columns: Sequence[str], first: pa.Array) -> pa.Array:
    """The reason why these events are dead letters: their ids, and the positions of the events that they repeat."""
    texts = []
    for name in columns:
        column = rows.column(name)
        text = column if pa.types.is_string(column.type) else column.cast(pa.string())
        texts.append(pc.binary_join_element_wise("'", pc.utf8_slice_codeunits(text, 0, LONGEST_ID), "'", ""))
    names, values = ", ".join(map(quote, columns)), pc.binary_join_element_wise(*texts, ", ")
    opening, closing = ("(", ")") if len(columns) > 1 else ("", "")
    start = f"{DUPLICATE}, found {opening}{names}{closing} = {opening}"
    return pc.binary_join_element_wise(start, values, f"{closing}, first at position ", first.cast(pa.string()), "")
