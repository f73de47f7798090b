"""The rows of a table in each of its versions, in DuckDB: loaded from a snapshot, then advanced by the table's log.

Workers and readers join rows to them by the same SQL (`engine/duckdb_relations.py`). A row has the versions
[begins, ends) in which it is the latest of its key, since rows that are joined to one table may be at different pins.
In a history, for joins FOR SYSTEM_TIME AS OF, the key ends with the time of a change.
A table that a worker cannot show at a pin is an error: Spark then computes the view.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from headrace.define.model import Stream
from headrace.define.relation import Join
from headrace.define.table_parts import DELETED
from headrace.engine.duckdb_relations import BEGINS, ENDS, JoinRows, changes_sql, refuse_join, side_name
from headrace.engine.duckdb_terms import duckdb_type
from headrace.lake.added_fields import read_filled, shape_of
from headrace.lake.table_schema import ARRIVED, COMMIT, POSITION, TABLES, table_schema
from headrace.types import BIGINT

LAST = (1 << 63) - 1
UNUSED_S = 600.0  # a table that no view was joined to for so long is dropped when another one is loaded
KEPT = 256  # versions before the newest one that a worker can still show


@dataclass(frozen=True)
class TableSide:
    """What joins read of a table: the columns, and a query for them over changes of the table's log."""

    name: str  # as `side_name` gives it: the name of the rows in queries
    keys: int
    columns: tuple[str, ...]  # DuckDB's types of the columns, after those of the keys
    log: Stream
    reads: tuple[str, ...]  # columns of the log
    source: str  # the table with changes that `sql` reads
    sql: str
    history: bool  # whether keys end with the time of a change; those that delete rows are shown, too

    @property
    def key_names(self) -> list[str]:
        """The columns of the key."""
        return [f"_of_{at}" for at in range(self.keys)]

    @property
    def names(self) -> list[str]:
        """The columns of the key and those that joins select."""
        return [*self.key_names, *(f"_column_{number}" for number in range(len(self.columns) - self.keys))]

    def no_changes(self) -> pa.Table:
        """Return a table of changes without rows."""
        schema = table_schema(self.log)
        return pa.schema([schema.field(name) for name in self.reads]).empty_table()

    def shown(self, versions: tuple[int, int]) -> str:
        """Return the condition for rows that are part of a version from the first to the last of these."""
        first, last = versions
        kept = "" if self.history else f" AND NOT {DELETED}"
        return f"{BEGINS} <= {last} AND {ENDS} > {first}{kept}"


def side_of(join: Join, log: Stream, source: str = "changes", joins: JoinRows = refuse_join) -> TableSide:
    """Return what a join reads of its table. Raises DefinitionError if only Spark makes that."""
    relation = join.log.relation
    fields = [name for name, _ in (relation.reads_of(log.name) if relation else join.reads)]
    fields += [join.log.event_time] if join.log.event_time and relation is None else []
    fields += [DELETED] if relation is None else []
    pins = [TABLES] if relation and relation.tables else []
    times = [BIGINT] if join.as_of else []
    types = [*(of.type for of, _ in join.keys), *times, *(of for _, _, of in join.columns)]
    return TableSide(
        side_name(join),
        len(join.keys) + len(times),
        tuple(map(duckdb_type, types)),
        log,
        tuple(dict.fromkeys([COMMIT, ARRIVED, POSITION, *pins, *fields])),
        source,
        changes_sql(join, source, joins=joins),
        history=join.as_of is not None,
    )


def create_versions(
    connection: duckdb.DuckDBPyConnection, table: str, side: TableSide, snapshot: Sequence[str] = ()
) -> None:
    """Create the table of versions: from files with the latest change of each key, or empty.

    The connection has the changes of `side.source`, whose rows are not read.
    """
    columns = ", ".join(
        [
            *(f"CAST({name} AS {of}) AS {name}" for name, of in zip(side.names, side.columns, strict=True)),
            DELETED,
            "_order",
            f"CAST(0 AS BIGINT) AS {BEGINS}",
            f"CAST({LAST} AS BIGINT) AS {ENDS}",
        ]
    )
    files = ", ".join(f"'{path}'" for path in snapshot)
    rows = f"read_parquet([{files}])" if snapshot else f"({side.sql}) LIMIT 0"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT {columns} FROM {rows}")


def advance_versions(connection: duckdb.DuckDBPyConnection, table: str, side: TableSide) -> None:
    """Add the changes of `side.source`, which are of later commits than those before.

    A row that is the latest of its key in some version is added, and the one that it follows ends.
    """
    keys, rest = ", ".join(side.key_names), side.names[side.keys :]
    same = " AND ".join(f"_t.{key} = _f.{key}" for key in side.key_names)
    # A key that has NULL, of a table AS SELECT, is equal to none: its rows would pile up.
    whole = " AND ".join(f"{key} IS NOT NULL" for key in side.key_names)
    # In a struct, since arg_max leaves out values that are NULL.
    row = ", ".join(f"'{name}': {name}" for name in (*rest, DELETED))
    columns = ", ".join([*side.key_names, *(f"_row.{name} AS {name}" for name in (*rest, DELETED)), "_order"])
    current = f"SELECT {keys}, _order FROM {table} WHERE {ENDS} = {LAST}"
    of_key = ", ".join(f"_f.{key}" for key in side.key_names)
    earlier = f"PARTITION BY {of_key} ORDER BY {COMMIT} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    ends = f"lead({COMMIT} + 1, 1, CAST({LAST} AS BIGINT)) OVER (PARTITION BY {keys} ORDER BY {COMMIT})"
    fresh = f"{table}_fresh"
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {fresh} AS WITH latest AS ("
        f"SELECT {keys}, {COMMIT}, arg_max({{{row}}}, _order) AS _row, max(_order) AS _order "
        f"FROM ({side.sql}) WHERE {whole} GROUP BY {keys}, {COMMIT}), "
        f"ordered AS (SELECT _f.*, _t._order AS _now, max(_f._order) OVER ({earlier}) AS _before "
        f"FROM latest AS _f LEFT JOIN ({current}) AS _t ON {same}), "
        "newer AS (SELECT * FROM ordered "
        "WHERE (_now IS NULL OR _order > _now) AND (_before IS NULL OR _order > _before)) "
        f"SELECT {columns}, {COMMIT} + 1 AS {BEGINS}, {ends} AS {ENDS} FROM newer"
    )
    first = f"SELECT {keys}, min({BEGINS}) AS {BEGINS} FROM {fresh} GROUP BY {keys}"
    connection.execute(
        f"UPDATE {table} AS _t SET {ENDS} = _f.{BEGINS} FROM ({first}) AS _f WHERE {same} AND _t.{ENDS} = {LAST}"
    )
    connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM {fresh}")
    connection.execute(f"DROP TABLE {fresh}")


def read_changes(
    paths: Iterable[str], log: Stream, columns: Sequence[str], commits: tuple[int, int]
) -> Iterator[pa.Table]:
    """Read these columns of the events of some commits from files of a log."""
    for path in paths:
        for rows in read_filled(path, range(len(shape_of(path).groups)), log, columns):
            commit = rows.column(COMMIT)
            within = pc.and_(pc.greater_equal(commit, commits[0]), pc.less(commit, commits[1]))
            if (some := rows.filter(within)).num_rows:
                yield some


@dataclass(frozen=True)
class TableAt:
    """What a worker needs to show a table at a pin."""

    side: TableSide
    snapshot: tuple[str, ...]  # Parquet files with the latest change of each key; version 0 has none
    version: int  # of the snapshot
    pin: int
    lake: str  # where the log is
    files: tuple[str, ...]  # of the log, with the commits [version, pin)

    @property
    def table(self) -> str:
        """The table of versions. Workers outlive a workspace: one of the same name in another is another table."""
        return f"{self.side.name}_{crc32(self.lake.encode()):08x}"


def table_at(
    join: Join, pin: int, log: Stream, lake: str, files: Iterable[str], snapshot: Sequence[str] = (), version: int = 0
) -> TableAt:
    """Return the table of a join at a pin, by these files of its log since the version of the snapshot."""
    return TableAt(side_of(join, log), tuple(snapshot), version, pin, lake, tuple(files))


_versions: dict[str, tuple[int, int]] = {}  # of each table: the first and the last that can be shown
_used: dict[str, float] = {}  # when each was shown last


def forget_tables() -> None:
    """Forget all tables, after the connection was closed."""
    _versions.clear()
    _used.clear()


def show_table(connection: duckdb.DuckDBPyConnection, at: TableAt) -> None:
    """Make the rows of a table at a pin those of its name."""
    table, side = at.table, at.side
    _used[table] = time.monotonic()
    try:
        first, last = _versions.get(table, (LAST, 0))
        # The files of the log begin at the snapshot's version: what is older than that cannot be advanced.
        if at.pin < first or last < at.version:
            _drop_unused(connection)
            _load(connection, at)
        if at.pin > _versions[table][1]:
            _advance(connection, at)
    except BaseException:
        _versions.pop(table, None)  # it may be half advanced: the next one loads it again
        raise
    rows = f"SELECT * FROM {table} WHERE {side.shown((at.pin, at.pin))}"
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {side.name} AS {rows}")


def _drop_unused(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop tables of views that were edited or dropped, and of other workspaces: they would fill the memory."""
    now = time.monotonic()
    for name in [name for name, used in _used.items() if now - used > UNUSED_S]:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        _versions.pop(name, None)
        del _used[name]


def _load(connection: duckdb.DuckDBPyConnection, at: TableAt) -> None:
    if at.pin < at.version:
        raise ValueError(f"the snapshot of table {at.side.log.name} is of version {at.version}, after {at.pin}")
    connection.register(at.side.source, at.side.no_changes())
    try:
        create_versions(connection, at.table, at.side, at.snapshot if at.version else ())
    finally:
        connection.unregister(at.side.source)
    _versions[at.table] = (at.version, at.version)


def _advance(connection: duckdb.DuckDBPyConnection, at: TableAt) -> None:
    """Advance the table to the pin by the changes since the version that it has."""
    side, (first, last) = at.side, _versions[at.table]
    changes = list(read_changes(at.files, side.log, side.reads, (last, at.pin)))
    if changes:
        connection.register(side.source, pa.concat_tables(changes))
        try:
            advance_versions(connection, at.table, side)
        finally:
            connection.unregister(side.source)
    kept = max(first, at.pin - KEPT)
    if kept > first:
        connection.execute(f"DELETE FROM {at.table} WHERE {ENDS} <= {kept}")
    _versions[at.table] = (kept, at.pin)
