"""Joins of the events that readers follow: the rows of tables at the pins of events, by DuckDB.

The changes of a table are read from its log once for all readers. Of these, a query gets those of the keys that occur
in its rows, and chooses the latest change that a row's commit saw.
"""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from headrace.define.model import ARRIVED, Stream
from headrace.define.own import functions_of
from headrace.define.relation import Join, TableLog
from headrace.define.table_parts import DELETED
from headrace.deliver.event_chunks import read_group
from headrace.duckdb_connections import literal, open_duckdb
from headrace.engine.duckdb_relations import KIND, REASON, DuckdbRows, changes_sql, finish_join, side_name
from headrace.engine.duckdb_terms import duckdb_name
from headrace.engine.time_functions import register
from headrace.engine.udf_calls import give_function
from headrace.errors import NotReadyError, QuestionError, UnavailableError
from headrace.lake.added_fields import shape_of
from headrace.lake.delta_table import LakeTable
from headrace.lake.table_schema import COMMIT, POSITION, TABLES, table_schema
from headrace.store.version import NOT_PINNED, Pinned
from headrace.types import STRING

PIN, AS_OF, FILL = "_pin", "_as_of", "_fill"  # of a row: the versions of the table, and the time in question
MEMORY = "512MB"  # for the changes of tables; what is more is on disk
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
    """The changes of a table that were read, as one join needs them."""

    lake: LakeTable | None
    version: int = 0  # the commits [0, version) were read


class TableChanges:
    """The changes of tables, for all readers. For any thread."""

    def __init__(self, find: FindLog) -> None:
        self._find = find
        self._lock = threading.RLock()  # the rows of a table AS SELECT may be joined to another table
        self._known: dict[str, _Known] = {}
        self._duckdb: duckdb.DuckDBPyConnection | None = None
        self._functions: set[str] = set()  # that the connection has

    def of(
        self, step: Join, pinned: Pinned, keys: pa.Table, versions: tuple[int, int], deadline: float | None
    ) -> pa.Table:
        """A row for each of these keys that has changes, with those that count in versions from `first` to `last`."""
        _, last = versions
        with self._turn(step, deadline):
            try:
                return self._find_keys(step, self._read(step, pinned, last, deadline), keys, versions)
            except duckdb.OutOfMemoryException as error:
                raise QuestionError(
                    f"the changes of table '{step.table}' do not fit into {MEMORY} and the temporary folder",
                    fix="read a view over the stream, which Spark computes",
                ) from error

    def _find_keys(self, step: Join, name: str, keys: pa.Table, versions: tuple[int, int]) -> pa.Table:
        connection, (first, last) = self._connection(), versions
        connection.register("_keys", keys)
        try:
            changes = _found_sql(step, name, first, last)
            if self._count(_changes_sql(step, name, last)) > MOST_CHANGES:  # at most so many are left of them
                self._refuse_more(step, self._count(f"SELECT unnest(_changes) FROM ({changes})"))
            side: pa.Table = connection.sql(changes).to_arrow_table()
            return side
        finally:
            connection.unregister("_keys")

    def _count(self, sql: str) -> int:
        return int(self._connection().execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0])

    @staticmethod
    def _refuse_more(step: Join, changes: int) -> None:
        if changes > MOST_CHANGES:
            raise TooManyChangesError(
                f"table '{step.table}' has {changes:,} changes of the keys of some events",
                expected=f"at most {MOST_CHANGES:,} for one event",
            )

    @contextmanager
    def _turn(self, step: Join, deadline: float | None) -> Iterator[None]:
        """One thread at a time, since there is one connection. A large table takes a while to read."""
        if not self._lock.acquire(timeout=-1 if deadline is None else max(0.0, deadline - time.monotonic())):
            raise NotReadyError(f"table '{step.table}' cannot be read yet: another one is being read", fix="ask again")
        try:
            yield
        finally:
            self._lock.release()

    def version(self, stream: str) -> int:
        """How many commits the log of changes of a table has now."""
        _, lake = self._find(stream)
        return lake.state.next_commit if lake else 0

    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._duckdb is None:
            folder = tempfile.TemporaryDirectory(prefix="headrace-tables-")
            self._duckdb = open_duckdb(memory=MEMORY, spill=folder.name)
            register(self._duckdb)
            weakref.finalize(self, _close, self._duckdb, folder)
        return self._duckdb

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
        known = self._known.pop(name, None)
        if known is None or known.lake is not lake:  # the table may have been dropped and created again
            self._connection().execute(f"DROP TABLE IF EXISTS {name}")
            self._insert(name, step, PinnedJoins(self, stream.name, pinned), _no_events(stream, step), deadline)
            known = _Known(lake)
        self._known[name] = known  # as the one that was used last
        while len(self._known) > MOST_TABLES:
            oldest = next(iter(self._known))
            self._connection().execute(f"DROP TABLE {oldest}")
            del self._known[oldest]
        while known.version < version:
            assert lake is not None, "it has commits"
            last = _next_version(lake, known.version, version)
            try:
                with lake.reading(known.version, last) as files:
                    paths = [lake.storage.locate(file.path) for file in files]
                    for events in _events(paths, stream, _reads(stream, step), (known.version, last)):
                        self._insert(name, step, PinnedJoins(self, stream.name, pinned), events, deadline)
            except BaseException:
                self._connection().execute(f"DELETE FROM {name} WHERE {COMMIT} >= {known.version}")
                raise
            known.version = last
            if deadline is not None and time.monotonic() > deadline and last < version:
                raise NotReadyError(
                    f"table '{step.table}' is being read", found=f"{last:,} of {version:,} commits", fix="ask again"
                )
        return name

    def _insert(self, name: str, step: Join, joins: PinnedJoins, events: pa.Table, deadline: float | None) -> None:
        connection, source = self._connection(), f"{name}_events"
        sql = changes_sql(step, source, joins=joins.join)
        for function in functions_of(step.log.relation.calling() if step.log.relation else ()):
            if function.full_name not in self._functions:
                give_function(connection, function)
                self._functions.add(function.full_name)
        connection.register(source, events)
        try:
            with joins.shown(connection, deadline):
                connection.execute(f"CREATE TABLE IF NOT EXISTS {name} AS SELECT * FROM ({sql}) LIMIT 0")
                connection.execute(f"INSERT INTO {name} SELECT * FROM ({sql})")
        finally:
            connection.unregister(source)


class PinnedJoins:
    """The joins of one query: writes them, and gives its connection the rows of tables that it needs.

    A row of a table has the column `_changes`, of which each row of the query takes the latest that its commit saw.
    """

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
        columns = {f"_key_{at}": rows.expression(of) for at, (of, _) in enumerate(step.keys)}
        versions = {PIN: self._pin(step.log), **self._fill(step)}
        columns |= versions
        if step.as_of is not None:
            columns[AS_OF] = f"epoch_us({rows.expression(step.as_of)})"
        left = rows.select({**rows.visible, **columns}, rows.types).sql
        if (left, step) not in self._sides:
            # Tables that only Spark makes are refused here, not when the query runs.
            changes_sql(step, "changes", joins=PinnedJoins(self._changes, step.log.stream, self._pinned).join)
            self._sides[left, step] = (f"_side_{next(_numbers)}", _keys_sql(left, step, tuple(versions)))
        name, _ = self._sides[left, step]
        same = " AND ".join(f"_row._key_{at} = _side._of_{at}" for at in range(len(step.keys)))
        both = ", ".join(f"{_latest(step, each)} AS _at{each}" for each in versions)
        sql = f"SELECT _row.*, {both} FROM ({left}) AS _row LEFT JOIN {name} AS _side ON {same}"
        choices = " ".join(f"WHEN NOT _at{each}.{DELETED} THEN _at{each}" for each in versions)
        sql = f"SELECT *, CASE {choices} END AS _found FROM ({sql})"
        selected = [f"_found._column_{at} AS {duckdb_name(name)}" for at, (name, _, _) in enumerate(step.columns)]
        return f"SELECT {', '.join(['*', *selected, f'_found.{DELETED} IS NOT NULL AS _matched'])} FROM ({sql})"

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


def _latest(step: Join, version: str) -> str:
    """SQL for the latest change that is part of a version, and is not after the time in question."""
    in_time = f" AND c._order._time <= _row.{AS_OF}" if step.as_of is not None else ""
    return f"list_max(list_filter(_side._changes, lambda c: c.{COMMIT} < _row.{version}{in_time}))"


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


def _changes_sql(step: Join, table: str, last: int) -> str:
    """A query for the changes of the keys in `_keys` that are part of a version."""
    same = " AND ".join(f"_of_{at} = _keys._key_{at}" for at in range(len(step.keys)))
    return f"SELECT * FROM {table} SEMI JOIN _keys ON {same} WHERE {COMMIT} < {last}"


def _found_sql(step: Join, table: str, first: int, last: int) -> str:
    """A query for the changes of the keys in `_keys`: the latest first, as they are compared in this order."""
    keys = ", ".join(f"_of_{at}" for at in range(len(step.keys)))
    columns = [f"_column_{at}" for at in range(len(step.columns))]
    sql = _changes_sql(step, table, last)
    change = ", ".join(f"'{name}': {name}" for name in ("_order", COMMIT, DELETED, *columns))
    if step.as_of is None:
        # Of all versions up to the first that is asked for, only the latest row of a key counts.
        commit = f"greatest({COMMIT}, {first - 1})"
        sql = f"SELECT {keys}, arg_max({{{change}}}, _order) AS _change FROM ({sql}) GROUP BY {keys}, {commit}"
    else:
        sql = f"SELECT {keys}, {{{change}}} AS _change FROM ({sql})"
    return f"SELECT {keys}, list(_change) AS _changes FROM ({sql}) GROUP BY {keys}"


def _reads(stream: Stream, step: Join) -> list[str]:
    """The columns of a log that the changes of its table are made of."""
    log = step.log
    if log.relation is not None:
        fields = [name for name, _ in log.relation.reads_of(stream.name)]
        return [COMMIT, ARRIVED, POSITION, *([TABLES] if log.relation.tables else []), *fields]
    times = [log.event_time] if log.event_time else []
    names = dict.fromkeys([*(name for name, _ in step.reads), *times, DELETED])
    return [COMMIT, ARRIVED, POSITION, *names]


def _no_events(stream: Stream, step: Join) -> pa.Table:
    schema = table_schema(stream)
    return pa.schema([schema.field(name) for name in _reads(stream, step)]).empty_table()


def _next_version(lake: LakeTable, start: int, end: int) -> int:
    """Where the commits from `start` on end that are read at once."""
    rows = 0
    for file in lake.files(start, end):
        rows += file.rows
        if rows >= STEP_ROWS and file.last_commit >= start:
            return min(end, file.last_commit + 1)
    return end


def _events(paths: list[str], stream: Stream, columns: list[str], commits: tuple[int, int]) -> Iterator[pa.Table]:
    for path in paths:
        for group in range(len(shape_of(path).groups)):
            for rows in read_group(path, group, stream, columns):
                commit = rows.column(COMMIT)
                within = pc.and_(pc.greater_equal(commit, commits[0]), pc.less(commit, commits[1]))
                if (some := rows.filter(within)).num_rows:
                    yield some


def _shown(value: str, *, is_text: bool) -> str:
    """SQL for a value as a reason shows it."""
    text = f"substr(CAST({value} AS VARCHAR), 1, {SHOWN_CHARACTERS})"
    quoted = f"chr(39) || {text} || chr(39)" if is_text else text
    return f"coalesce({quoted}, 'NULL')"


def _close(connection: duckdb.DuckDBPyConnection, folder: tempfile.TemporaryDirectory[str]) -> None:
    connection.close()
    folder.cleanup()
