"""Divides rows of partials, in the order of key and pane, into ranges that are small enough to be folded in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from headrace.aggregate import PartialColumn
from headrace.define.model import View
from headrace.duckdb_connections import literal, run
from headrace.engine.duckdb_terms import duckdb_name
from headrace.store.duckdb.levels import LEVELS, floor_to
from headrace.store.partial_columns import EVENTS, KEY_ID, PANE, partials_of

DAY_MS = LEVELS["days"]
PREFIX_DIGITS = 3  # of the key id: 4,096 steps, which hold alike since it is a hash
SHARE = 8  # a range takes this part of the memory: DuckDB, Arrow and Python each hold its sketches once
ROW_BYTES = 100  # without its sketches
STAGED_GROUP = 8_192  # rows that are read together where key_ranges are staged


@dataclass(frozen=True)
class KeyRange:
    """Rows with a key id in [first, last] (prefixes) and a pane in [start, end); None is unbounded."""

    first: str
    last: str
    start_ms: int | None = None
    end_ms: int | None = None
    size: int = 0  # bytes, about

    @property
    def condition(self) -> str:
        """The range in SQL; bounds are constants, so that sorted tables are read in part."""
        terms = [f"{KEY_ID} >= UUID '{_filled(self.first, '0')}'", f"{KEY_ID} <= UUID '{_filled(self.last, 'f')}'"]
        if self.start_ms is not None:
            terms.append(f"{PANE} >= {self.start_ms}")
        if self.end_ms is not None:
            terms.append(f"{PANE} < {self.end_ms}")
        return " AND ".join(terms)


ALL = KeyRange("0", "f")


def stage(connection: duckdb.DuckDBPyConnection, source: str, file: Path) -> str:
    """Write what the query `source` gives into a file, sorted, and give a query that reads it.

    So each range reads its own rows only, and not all rows for each of many ranges.
    """
    file.parent.mkdir(exist_ok=True)
    run(connection, f"ATTACH {literal(file)} AS {duckdb_name(file.name)} (TYPE duckdb, ROW_GROUP_SIZE {STAGED_GROUP})")
    run(connection, f"CREATE TABLE {duckdb_name(file.name)}.staged AS {source} ORDER BY {KEY_ID}, {PANE}")
    return f"SELECT * FROM {duckdb_name(file.name)}.staged"


def range_bytes(memory_mb: int) -> int:
    """The number of bytes that a range may have where so much memory may be used."""
    return (memory_mb << 20) // SHARE


def cut(connection: duckdb.DuckDBPyConnection, view: View, source: str, most: int) -> list[KeyRange]:
    """Ranges of at most so many bytes, of the rows that the query `source` gives, in the order of (key id, pane).

    DuckDB folds and sorts what it knows beyond its memory, but it keeps lists, of sketches too, within: only
    where there are some, rows are cut. Days are not cut, so that hours and days can be folded range by range.
    """
    if not _gathers(view):
        return [ALL]
    key_ranges = []
    for part in _cut_by_key(connection, source, _weight(view), most):
        key_ranges += [part] if part.size <= most else cut_by(connection, view, source, part, DAY_MS, most)
    return key_ranges


def cut_rows(connection: duckdb.DuckDBPyConnection, view: View, source: str, most: int) -> list[KeyRange]:
    """Ranges of about so many bytes, by key, of rows that are not aggregated yet: lists of their values are."""
    return _cut_by_key(connection, source, str(ROW_BYTES), most) if _gathers(view) else [ALL]


def _gathers(view: View) -> bool:
    return any(_size(duckdb_name(name), part) for name, part in partials_of(view))


def _cut_by_key(connection: duckdb.DuckDBPyConnection, source: str, weight: str, most: int) -> list[KeyRange]:
    prefix = f"left(CAST({KEY_ID} AS VARCHAR), {PREFIX_DIGITS})"
    query = f"SELECT {prefix}, CAST(sum({weight}) AS BIGINT) FROM ({source}) GROUP BY ALL ORDER BY ALL"
    return [KeyRange(first, last, size=size) for first, last, size in _gathered(run(connection, query), most)]


def cut_by(
    connection: duckdb.DuckDBPyConnection, view: View, source: str, part: KeyRange, span_ms: int, most: int
) -> list[KeyRange]:
    """The range as smaller ones, between spans of so many ms: of at most so many bytes, or of one span."""
    span = floor_to(span_ms)
    query = f"SELECT {span}, CAST(sum({_weight(view)}) AS BIGINT) FROM ({source}) WHERE {part.condition} GROUP BY ALL"
    spans = _gathered(run(connection, f"{query} ORDER BY ALL"), most)
    return [replace(part, start_ms=start, end_ms=last + span_ms, size=size) for start, last, size in spans]


def _weight(view: View) -> str:
    """SQL for about how many bytes of a row a fold gathers."""
    sizes = (_size(duckdb_name(name), part) for name, part in partials_of(view))
    return " + ".join([str(ROW_BYTES), *(f"coalesce({size}, 0)" for size in sizes if size)])


def _size(column: str, part: PartialColumn) -> str | None:
    """SQL for about how many bytes a partial adds to those that a fold gathers; None if it gathers none."""
    if part.batch_only:  # without reading it: one may be larger than all else
        return f"least({EVENTS} * {part.batch_only.bytes_per_event}, {part.batch_only.most_bytes})"
    if part.type.name == "ARRAY":
        return f"strlen(CAST({column} AS VARCHAR))"
    return f"octet_length({column})" if part.merge.fold is None else None


def _gathered(weighed: Iterable[tuple[Any, ...]], most: int) -> Iterator[tuple[Any, Any, int]]:
    """Neighbours put together while they weigh no more than `most`: first, last, weight."""
    group: tuple[Any, Any, int] | None = None
    for step, size in weighed:
        if group and group[2] + size <= most:
            group = group[0], step, group[2] + size
            continue
        if group:
            yield group
        group = step, step, size
    if group:
        yield group


def _filled(prefix: str, digit: str) -> str:
    digits = prefix.ljust(32, digit)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
