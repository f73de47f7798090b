"""Joins of the events that readers follow: the rows of tables at the pins of events, by DuckDB.

The rows of a table in all of its versions are made of its log once for all readers, as workers make them. A query gets
those of the keys that occur in it.
"""

from __future__ import annotations

import itertools
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from headrace.define.model import Stream
from headrace.define.relation import Join, TableLog
from headrace.duckdb_connections import literal
from headrace.engine.duckdb_relations import (
    FILL,
    KIND,
    PIN,
    REASON,
    DuckdbRows,
    changes_sql,
    finish_join,
    join_sql,
    keyed_sql,
    side_name,
)
from headrace.engine.duckdb_session import DuckdbSession
from headrace.errors import NotReadyError, QuestionError, UnavailableError
from headrace.lake.delta_table import LakeTable
from headrace.lake.table_schema import COMMIT, TABLES
from headrace.language.user_functions import functions_of
from headrace.maintain.table_versions import TableSide, advance_versions, create_versions, read_changes, side_of
from headrace.store.version import NOT_PINNED, Pinned
from headrace.types import STRING

MEMORY = "512MB"  # for the rows of tables; what is more is on disk
MOST_TABLES = 32  # with what joins read of them: those that were used last
STEP_ROWS = 200_000  # of a log that are read at once, about
MOST_CHANGES = 1_000_000  # for the rows of one query: with more, its rows are joined in parts
SHOWN_CHARACTERS = 200  # of a key

_numbers = itertools.count()  # of sides: tables AS SELECT with joins are read by the same connection
FindLog = Callable[[str], tuple[Stream, LakeTable | None]]  # raises if there is no such stream


class TooManyChangesError(QuestionError):
    """The keys of some rows have too many changes to be joined at once."""


@dataclass
class _Known:
    """The rows of a table in the versions that were made, as one join needs them."""

    lake: LakeTable | None
    side: TableSide
    joins: PinnedJoins  # of its changes, to other tables
    version: int = 0  # the commits [0, version) were read


class TableChanges:
    """The rows of tables in all of their versions, for all readers. For any thread."""

    def __init__(self, find: FindLog) -> None:
        self._find = find
        self._known: dict[str, _Known] = {}

    @cached_property
    def _session(self) -> DuckdbSession:
        folder = tempfile.TemporaryDirectory(prefix="headrace-tables-")
        weakref.finalize(self, folder.cleanup)
        return DuckdbSession(memory=MEMORY, spill=folder.name)

    def of(
        self, step: Join, pinned: Pinned, keys: pa.Table, versions: tuple[int, int], deadline: float | None
    ) -> pa.Table:
        """Return the rows of these keys that are part of a version from the first to the last of these."""
        with self._turn(step, deadline):
            try:
                name = self._read(step, pinned, versions[1], deadline)
                return self._find_keys(step, name, keys, versions)
            except duckdb.OutOfMemoryException as error:
                raise QuestionError(
                    f"the changes of table '{step.table}' do not fit into {MEMORY} and the temporary folder",
                    fix="read a view over the stream, which Spark computes",
                ) from error

    def _find_keys(self, step: Join, name: str, keys: pa.Table, versions: tuple[int, int]) -> pa.Table:
        same = " AND ".join(f"_of_{at} = _keys._key_{at}" for at in range(len(step.keys)))
        selected = f"FROM {name} SEMI JOIN _keys ON {same} WHERE {self._known[name].side.shown(versions)}"
        rows = self._session.query(f"SELECT count(*) {selected}", _keys=keys).column(0)[0].as_py()
        if rows > MOST_CHANGES:
            raise TooManyChangesError(
                f"table '{step.table}' has {rows:,} changes of the keys of some events",
                expected=f"at most {MOST_CHANGES:,} for one event",
            )
        return self._session.query(f"SELECT * {selected}", _keys=keys)

    @contextmanager
    def _turn(self, step: Join, deadline: float | None) -> Iterator[None]:
        """One thread at a time, since there is one connection. A large table takes a while to read."""
        lock = self._session.lock
        if not lock.acquire(timeout=-1 if deadline is None else max(0.0, deadline - time.monotonic())):
            raise NotReadyError(f"table '{step.table}' cannot be read yet: another one is being read", fix="retry")
        try:
            yield
        finally:
            lock.release()

    def version(self, stream: str) -> int:
        """How many commits the log of changes of a table has now."""
        _, lake = self._find(stream)
        return lake.state.next_commit if lake else 0

    def _read(self, step: Join, pinned: Pinned, version: int, deadline: float | None) -> str:
        """Read the changes of the commits before a version that were not read yet; the table that has them."""
        stream, lake = self._find(step.log.stream)
        end = lake.state.next_commit if lake else 0
        if version > end:
            raise UnavailableError(
                f"the log of changes '{step.log.stream}' has lost commits: events were joined to later ones",
                found=f"{end:,} commits", expected=f"{version:,}", fix="restore its lake from a backup",
            )  # fmt: skip
        nested = step.log.relation is not None and bool(step.log.relation.tables)
        name = side_name(step) + (f"_{hash(pinned):x}".replace("-", "_") if nested else "")
        known = self._known.pop(name, None)  # if this fails, the table may be half advanced, and is made again
        if known is None or known.lake is not lake:  # the table may have been dropped and created again
            joins = PinnedJoins(self, stream.name, pinned)
            known = _Known(lake, side_of(step, stream, f"{name}_changes", joins.join), joins)
            self._session.give(functions_of(step.log.relation.calling() if step.log.relation else ()))
            with self._showing(known, known.side.no_changes(), deadline) as connection:
                create_versions(connection, name, known.side)
        while known.version < version:
            assert lake is not None, "it has commits"
            last = _next_version(lake, known.version, version)
            with lake.reading(known.version, last) as files:
                paths = [lake.storage.locate(file.path) for file in files]
                changes = list(read_changes(paths, stream, known.side.reads, (known.version, last)))
            if changes:
                with self._showing(known, pa.concat_tables(changes), deadline) as connection:
                    advance_versions(connection, name, known.side)
            known.version = last
            if deadline is not None and time.monotonic() > deadline and last < version:
                self._known[name] = known
                raise NotReadyError(
                    f"table '{step.table}' is being read", found=f"{last:,} of {version:,} commits", fix="retry"
                )
        self._known[name] = known  # as the one that was used last
        while len(self._known) > MOST_TABLES:
            oldest = next(iter(self._known))
            self._session.connection.execute(f"DROP TABLE {oldest}")
            del self._known[oldest]
        return name

    @contextmanager
    def _showing(self, known: _Known, changes: pa.Table, deadline: float | None) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield the connection, which has these changes and what they are joined to."""
        with (
            self._session.showing(**{known.side.source: changes}) as connection,
            known.joins.shown(connection, deadline),
        ):
            yield connection


class PinnedJoins:
    """The joins of one query: writes them, and gives its connection the rows of tables that it needs."""

    def __init__(self, changes: TableChanges, base: str, pinned: Pinned = NOT_PINNED) -> None:
        """`base` is the stream whose events the query reads; without `pinned`, older events see an empty table."""
        self._changes = changes
        self._base = base
        self._pinned = pinned
        self._sides: dict[tuple[str, Join], tuple[str, str]] = {}  # with the name of each and a query for its keys

    def join(self, rows: DuckdbRows, step: Join) -> DuckdbRows:
        """The rows after a join."""
        return finish_join(rows, self._matches(rows, step), step)

    def missing(self, rows: DuckdbRows, step: Join) -> DuckdbRows | None:
        """The rows that a join leaves out since the table has no row with their key, with `REASON` and `KIND`."""
        if step.kind not in ("inner", "semi"):
            return None
        matches = DuckdbRows(self._matches(rows, step), rows.types, rows.reserved, rows.stream)
        names = " and ".join(column for _, column in step.keys)
        start = f"missing key: table '{step.table}' has no row with "
        values = [
            f"{literal(f'{column} = ')} || {_shown(f'_key_{at}', is_text=of.type == STRING)}"
            for at, (of, column) in enumerate(step.keys)
        ]
        reason = f"{literal(start)} || " + " || ' and ' || ".join(values)
        return matches.where("NOT _matched").select({REASON: reason, KIND: literal(f"{start}this {names}")}, {})

    def _matches(self, rows: DuckdbRows, step: Join) -> str:
        """A query for the rows with the columns of the table, and `_matched`: whether it has a row with their key."""
        versions = {PIN: self._pin(step.log), **self._fill(step)}
        left = keyed_sql(rows, step, versions)
        if (left, step) not in self._sides:
            # Tables that only Spark makes are refused here, not when the query runs.
            changes_sql(step, "changes", joins=PinnedJoins(self._changes, step.log.stream, self._pinned).join)
            self._sides[left, step] = (f"_side_{next(_numbers)}", _keys_sql(left, step, tuple(versions)))
        return join_sql(left, step, self._sides[left, step][0], tuple(versions))

    def _pin(self, log: TableLog) -> str:
        """SQL for the version of a table that the event of a row is joined to."""
        default = dict(self._pinned.versions).get(log.stream, 0)
        recorded = f"coalesce({TABLES}[{literal(log.stream)}], {default})"
        until = dict(self._pinned.until).get(self._base)
        return recorded if until is None else f"CASE WHEN {COMMIT} < {until} THEN {default} ELSE {recorded} END"

    def _fill(self, step: Join) -> dict[str, str]:
        """SQL for the version in which a key is looked for that is missing at the pin, if there is one."""
        filling = self._pinned.filling(self._base, step.log.stream) if step.kind != "anti" else None
        return {} if filling is None else {FILL: f"CASE WHEN {COMMIT} < {filling[0]} THEN {filling[1]} ELSE 0 END"}

    @contextmanager
    def shown(self, connection: duckdb.DuckDBPyConnection, deadline: float | None = None) -> Iterator[None]:
        """While the block runs, the connection, which has the events, also has the rows of tables."""
        names = []
        try:
            for (_, step), (name, keys_sql) in self._sides.items():
                keys = connection.sql(keys_sql).to_arrow_table()
                versions = _range(keys)
                keys = keys.select([f"_key_{at}" for at in range(len(step.keys))])
                connection.register(name, self._changes.of(step, self._pinned, keys, versions, deadline))
                names.append(name)
            yield
        finally:
            for name in names:
                connection.unregister(name)


def in_parts(events: pa.Table, make: Callable[[pa.Table], pa.Table]) -> pa.Table:
    """What is made of events in order; in halves where their keys have too many changes to be joined at once."""
    try:
        return make(events)
    except TooManyChangesError:
        if events.num_rows < 2:
            raise
        half = events.num_rows // 2
        return pa.concat_tables([in_parts(events.slice(0, half), make), in_parts(events.slice(half), make)])


def _keys_sql(rows: str, step: Join, versions: tuple[str, ...]) -> str:
    """A query for the keys of rows, with the first and the last version in which each is looked for."""
    keys = ", ".join(f"_key_{at}" for at in range(len(step.keys)))
    first = ", ".join(f"min(nullif({each}, 0))" for each in versions)
    last = ", ".join(f"max({each})" for each in versions)
    bounds = f"coalesce(least({first}), 0) AS _first, greatest({last}) AS _last"
    return f"SELECT {keys}, {bounds} FROM ({rows}) GROUP BY {keys}"


def _range(keys: pa.Table) -> tuple[int, int]:
    first, last = pc.min(keys.column("_first")).as_py(), pc.max(keys.column("_last")).as_py()
    return first or 0, last or 0


def _next_version(lake: LakeTable, start: int, end: int) -> int:
    """Where the commits from `start` on end that are read at once."""
    rows = 0
    for file in lake.files(start, end):
        rows += file.rows
        if rows >= STEP_ROWS and file.last_commit >= start:
            return min(end, file.last_commit + 1)
    return end


def _shown(value: str, *, is_text: bool) -> str:
    """SQL for a value as a reason shows it."""
    text = f"substr(CAST({value} AS VARCHAR), 1, {SHOWN_CHARACTERS})"
    quoted = f"chr(39) || {text} || chr(39)" if is_text else text
    return f"coalesce({quoted}, 'NULL')"
