"""A consistent read of the DuckDB store: versions, and rows folded over all tables of one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import duckdb

from headrace.define.model import View
from headrace.define.table_parts import holds_rows_of_table
from headrace.duckdb_connections import run
from headrace.engine.duckdb_terms import duckdb_name
from headrace.errors import NotReadyError
from headrace.lazy import pa
from headrace.store.duckdb.change_log import (
    read_cells,
    read_cells_again,
    read_followers,
    read_log,
    read_sessions,
    read_ticks,
)
from headrace.store.duckdb.database import Database
from headrace.store.duckdb.folds import (
    CELLS,
    SPANS,
    TableSource,
    all_rows,
    batch_only_bytes,
    changed,
    count_groups,
    days_of,
    few,
    fold,
    nth_bucket,
    sessions_with,
)
from headrace.store.duckdb.levels import PANES
from headrace.store.duckdb.merge_functions import MERGES
from headrace.store.duckdb.row_cache import CachedRows, CachedView, Demand, Lookups, Row, pays
from headrace.store.duckdb.stored_rows import present_count
from headrace.store.duckdb.table_sql import batch_only_columns, speed_table
from headrace.store.duckdb.version_rows import read_audits, read_versions
from headrace.store.partial_columns import CORRECTIONS, EVENTS, KEY_ID, PANE, partials_of
from headrace.store.selection import Selection, fold_in_python
from headrace.store.step_changes import Follower, TouchedTicks
from headrace.store.store_contract import Audit, NotCachedError
from headrace.store.version import Version

COUNTED_ROWS = 50_000  # of a version: up to so many, those in several tables are counted once
FEW = 4_000  # rows that are folded in Python
FEWER = 500  # … by a thread that others wait for
PIECE = 20_000  # rows that are read at once: sketches have up to 4 kB each
MOST_BATCH_ONLY = 512 << 20  # bytes of columns that only the batch layer fills: more of them are left out


class DuckSnapshot:
    """One transaction that only reads, or several during which nothing was committed; or only what is in memory."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection | None,
        database: Database,
        known: list[Version] | None,
        lookups: Lookups,
    ) -> None:
        self._reader = connection
        self.has_read = False  # the database; else all came from memory, and is right for its version
        self._database = database
        self._known = known  # the versions as this transaction sees them; None: not read yet
        self._lookups = lookups
        self._read_rows: tuple[Version, Demand, CachedRows] | None = None  # all of a version, not cached yet

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        self.has_read = True
        if self._reader is None:
            raise NotCachedError
        return self._reader

    def cache_rows(self) -> None:
        """Cache the rows that were read, now that it is certain that nothing was committed meanwhile."""
        if self._read_rows:
            self._lookups.cache(*self._read_rows)

    def versions(self) -> list[Version]:
        if self._known is None:
            self._known = read_versions(self.connection)
        return list(self._known)

    def serving(self, view: str) -> Version | None:
        return find_serving(self.versions(), view)

    def audits(self, view: str, limit: int | None = None) -> list[Audit]:
        return read_audits(self.connection, view, limit)

    def count(self, version: Version) -> tuple[int, int]:
        tables = speed_tables(version)
        where = "" if version.view.over is None else f" WHERE {EVENTS} > 0"
        counts = [run(self.connection, f"SELECT count(*) FROM {duckdb_name(table)}{where}")[0][0] for table in tables]
        return sum(table.rows for table in version.batch), int(sum(counts))

    def count_cells(self, version: Version) -> int:
        if holds_rows_of_table(version.view):
            return self._count_present(version)
        stored, names = sum(self.count(version)), self.stored_in(version)
        if len(names) == 1 or stored > COUNTED_ROWS:
            return stored
        where = "" if version.view.over is None else f" WHERE {EVENTS} > 0"
        cells = " UNION ".join(f"SELECT {KEY_ID}, {PANE} FROM {name}{where}" for name in names)
        return int(run(self.connection, f"SELECT count(*) FROM ({cells})")[0][0])

    def _count_present(self, version: Version) -> int:
        """The number of rows of a table: its stored keys without deleted ones. Counted once for each commit."""
        known, at = self._database.present, tuple(base.applied_to for base in version.bases)
        if known.get(version.id, ((), 0))[0] != at:
            sql = present_count(version.view, self.stored_in(version))
            known[version.id] = (at, int(run(self.connection, sql)[0][0]))
        return known[version.id][1]

    def speed_events(self, version: Version) -> int:
        return sum(self._total(EVENTS, duckdb_name(table)) for table in speed_tables(version))

    def corrections(self, version: Version) -> int:
        known = self._database.corrections
        for table in version.batch:
            if table.file not in known:  # a batch table never changes
                known[table.file] = self._total(CORRECTIONS, f"{self._database.attach(table.file)}.{PANES}")
        in_speed = sum(self._total(CORRECTIONS, duckdb_name(table)) for table in speed_tables(version))
        return in_speed + sum(known[table.file] for table in version.batch)

    def _total(self, column: str, table: str) -> int:
        return int(run(self.connection, f"SELECT coalesce(sum({column}), 0) FROM {table}")[0][0])

    def fold(self, version: Version, selection: Selection) -> pa.Table:
        sources, selection = self._reading(version, selection)
        query, parameters = fold(version.view, sources, selection)
        table: pa.Table = self.connection.sql(query, params=parameters).to_arrow_table()
        return table

    def pieces(self, version: Version, selection: Selection, *, ordered: bool) -> pa.RecordBatchReader:
        sources, selection = self._reading(version, selection)
        query, parameters = fold(version.view, sources, selection, ordered=ordered)
        reader: pa.RecordBatchReader = self.connection.sql(query, params=parameters).to_arrow_reader(PIECE)
        return reader

    def rows(self, version: Version, selection: Selection) -> list[tuple[Any, ...]]:
        sources = self._sources(version)
        selection = self._resolve(version, sources, selection)
        if selection.where:
            # Planning an aggregation costs DuckDB more than reading the few rows of a key.
            rows = self._few_rows(version, sources, selection)
            if len(rows) <= FEW:
                return fold_in_python(version.view, selection, rows)
        elif selection.limit is not None and selection.bucket_ms is not None:
            rows = self._first_rows(version, sources, selection, selection.limit)
            if len(rows) == selection.limit:
                return rows
        return self._folded(version, sources, selection)

    def _folded(self, version: Version, sources: list[TableSource], selection: Selection) -> list[Row]:
        self._give_merges(version.view)
        return run(self.connection, *fold(version.view, self._bounded(version, sources, selection), selection))

    def _few_rows(self, version: Version, sources: list[TableSource], selection: Selection) -> list[Row]:
        """The rows of some keys, at most FEW + 1: from the cache, or from the tables."""
        demand = self._lookups.count(version, len(selection.where))
        cached = self._lookups.rows_of(version, demand) or self._read_all(version, demand, sources)
        rows = cached.find(version.view, selection, self._most_rows(version, selection)) if cached else None
        if rows is not None:
            return rows
        query, parameters = few(version.view, self._bounded(version, sources, selection), selection, FEW + 1)
        return self._database.run_again(self.connection, query, parameters)

    def _most_rows(self, version: Version, selection: Selection) -> int:
        """The most rows of some keys that are folded in Python; while others wait, no scan for keys in part."""
        if self._reader is not None:
            return FEW
        if any(len(values) < len(version.view.keys) for values in selection.where):
            raise NotCachedError
        return FEWER

    def _read_all(self, version: Version, demand: Demand, sources: list[TableSource]) -> CachedView | None:
        """All rows of a version that is asked for many keys; None if single reads cost less."""
        if not pays(demand, demand.rows) or not demand.reading.acquire(blocking=False):
            return None
        try:
            view = version.view
            if demand.rows is None:
                demand.rows = sum(self.count(version))
                if not pays(demand, demand.rows):
                    return None
            read = CachedRows.read(view, self.connection.sql(all_rows(view, sources)).to_arrow_table())
            demand.rows = len(read)
            self._read_rows = version, demand, read
            return CachedView(read)
        finally:
            demand.reading.release()

    def _first_rows(
        self, version: Version, sources: list[TableSource], selection: Selection, limit: int
    ) -> list[tuple[Any, ...]]:
        """The page from as few buckets as can hold it; shorter than the limit if those were too few.

        Buckets come first in the order, so a page that these complete buckets fill is the page of all
        of them: a large view is not folded completely for each of its pages.
        """
        last = run(self.connection, *nth_bucket(version.view, sources, selection, limit))
        if not last:
            return []
        start, end = selection.panes
        bucket = last[0][0]
        if selection.newest_first:
            start = bucket if start is None else max(bucket, start)
        else:
            cut = selection.end_of(bucket)
            end = cut if end is None else min(cut, end)
        near = replace(selection, panes=(start, end))
        return self._folded(version, sources, near)

    def followers(self) -> list[Follower]:
        return read_followers(self.connection)

    def log(self, version: Version) -> TouchedTicks | None:
        return read_log(self.connection, version)

    def ticks(self, version: Version, after: int) -> list[tuple[int, int]]:
        return read_ticks(self.connection, version, after)

    def touched(self, version: Version, after: int, upto: int) -> pa.Table:
        return read_cells(self.connection, version, after, upto)

    def touched_again(self, version: Version, after: int, upto: int) -> pa.Table:
        return read_cells_again(self.connection, version, after, upto)

    def changed(self, version: Version, selection: Selection, spans: pa.Table) -> list[tuple[Any, ...]]:
        sources, selection = self._reading(version, selection, all_cells=True)
        query, parameters = changed(version.view, sources, selection)
        self.connection.register(SPANS, spans)
        try:
            return run(self.connection, query, parameters)
        finally:
            self.connection.unregister(SPANS)

    def touched_sessions(self, version: Version, after: int, upto: int) -> list[tuple[str, int, int]]:
        return read_sessions(self.connection, version, after, upto)

    def sessions(self, version: Version, cells: pa.Table) -> list[tuple[Any, ...]]:
        self._give_merges(version.view)
        self.connection.register(CELLS, cells)
        try:
            return run(self.connection, *sessions_with(version.view, self._sources(version)))
        finally:
            self.connection.unregister(CELLS)

    def count_groups(self, version: Version, selection: Selection, most: int) -> int | None:
        sources = self._sources(version)
        selection = self._resolve(version, sources, selection)
        rows, groups = count_groups(version.view, sources, selection, most)
        if run(self.connection, *rows)[0][0] > most:
            return None
        return int(run(self.connection, *groups)[0][0])

    def _reading(
        self, version: Version, selection: Selection, *, all_cells: bool = False
    ) -> tuple[list[TableSource], Selection]:
        """The sources to fold for a selection, and the selection with its windows."""
        self._give_merges(version.view)
        sources = self._sources(version, all_cells=all_cells)
        selection = self._resolve(version, sources, selection)
        return self._bounded(version, sources, selection), selection

    def _give_merges(self, view: View) -> None:
        """Register merges before a query that folds rows. They load numpy, which other commands do not need."""
        if any(part.merge.fold is None for _, part in partials_of(view)):
            self._database.give(MERGES)

    def _bounded(self, version: Version, sources: list[TableSource], selection: Selection) -> list[TableSource]:
        """The sources, without what only the batch layer fills where that would take too much memory."""
        columns = [of for _, of in batch_only_columns(version.view)]
        events = sum(table.events for table in version.batch)
        if sum(of.bytes_per_event for of in columns) * events <= MOST_BATCH_ONLY:  # each event is in one row at most
            return sources
        size = run(self.connection, *batch_only_bytes(version.view, sources, selection))[0][0]
        return sources if size <= MOST_BATCH_ONLY else [replace(source, complete=False) for source in sources]

    def _resolve(self, version: Version, sources: list[TableSource], selection: Selection) -> Selection:
        """The selection, with the windows of its calendar that hold panes."""
        if selection.calendar is None:
            return selection
        days = run(self.connection, *days_of(version.view, sources, selection))
        return selection.with_panes_in([day for (day,) in days])

    def stored_in(self, version: Version) -> list[str]:
        """The tables of a version, as SQL writes their names."""
        batch = [f"{self._database.attach(table.file)}.{PANES}" for table in version.batch]
        return batch + [duckdb_name(table) for table in speed_tables(version)]

    def _sources(self, version: Version, *, all_cells: bool = False) -> list[TableSource]:
        """The sources of a version's rows, in both layers; with `all_cells` also those without an event."""
        if not version.complete:
            raise NotReadyError(
                f"view '{version.view.name}' version {version.number} has no rows to read",
                found=f"state {version.state}",
                fix="retry when it is built; `headrace versions` shows the progress",
            )
        return table_sources(self._database, version, all_cells=all_cells)


def table_sources(database: Database, version: Version, *, all_cells: bool = False) -> list[TableSource]:
    """The tables of a version that is complete."""
    batch = [TableSource(database.attach(table.file), batch=True) for table in version.batch]
    # A cell of a view over a table may be without rows: it is not shown.
    reading = "{}" if version.view.over is None or all_cells else f"(SELECT * FROM {{}} WHERE {EVENTS} > 0)"
    speed = (reading.format(duckdb_name(table)) for table in speed_tables(version))
    return batch + [TableSource(table, batch=False) for table in speed]


def find_serving(versions: Iterable[Version], view: str) -> Version | None:
    """The version of a view that serves."""
    return next((version for version in versions if version.serving and version.view.name == view), None)


def speed_tables(version: Version) -> list[str]:
    """The speed tables of a version."""
    return [table for base in version.bases for table in speed_tables_of(version, base.stream)]


def speed_tables_of(version: Version, stream: str) -> list[str]:
    """The tables that hold the events of one stream, the one that is merged into last."""
    if version.home is None:
        return []
    base, at = version.base(stream), version.view.streams.index(stream)
    starts = [base.horizon] if base.next_horizon is None else [base.horizon, base.next_horizon]
    return [speed_table(version.view.name, version.home, start, at) for start in starts]
