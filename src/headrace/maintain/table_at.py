"""The rows of a table at a pin, in the DuckDB of a worker: loaded from a snapshot, then brought on by the table's log.

A row has the versions [begins, ends) in which it is the latest of its key, since two streams that are joined to one
table may be at different pins. In a history, for joins FOR SYSTEM_TIME AS OF, the key ends with the time of a change.
A table that cannot be shown at a pin is an error: Spark then computes the view.
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
from headrace.engine.duckdb_relations import changes_sql, side_name
from headrace.engine.duckdb_terms import duckdb_type
from headrace.lake.added_fields import read_filled, shape_of
from headrace.lake.table_schema import ARRIVED, COMMIT, POSITION, table_schema
from headrace.types import BIGINT

LAST = (1 << 63) - 1
UNUSED_S = 600.0  # a table that no view was joined to for so long is dropped when another one is loaded
KEPT = 256  # versions before the newest one that can still be shown


@dataclass(frozen=True)
class TableAt:
    """What a worker needs to show a table at a pin."""

    name: str  # as `side_name` gives it: the name of the table in queries
    keys: int
    columns: tuple[str, ...]  # DuckDB's types of the columns, after those of the keys
    snapshot: tuple[str, ...]  # Parquet files with the latest change of each key; version 0 has none
    version: int  # of the snapshot
    pin: int
    lake: str  # where the log is
    log: Stream
    reads: tuple[str, ...]  # columns of the log
    files: tuple[str, ...]  # of the log, with the commits [version, pin)
    sql: str  # a query for the changes in a table `changes` with the events of the log
    history: bool = False  # whether its keys end with the time of a change; those that delete rows are shown, too

    @property
    def key_names(self) -> list[str]:
        """The columns of the key."""
        return [f"_of_{at}" for at in range(self.keys)]


def table_at(
    join: Join, pin: int, log: Stream, lake: str, files: Iterable[str], snapshot: Sequence[str] = (), version: int = 0
) -> TableAt:
    """The table of a join at a pin, by these files of its log since the version of the snapshot."""
    fields = [name for name, _ in (join.log.relation.reads_of(log.name) if join.log.relation else join.reads)]
    fields += [join.log.event_time] if join.log.event_time and join.log.relation is None else []
    fields += [DELETED] if join.log.relation is None else []
    times = [BIGINT] if join.as_of else []
    types = [*(of.type for of, _ in join.keys), *times, *(of for _, _, of in join.columns)]
    return TableAt(
        side_name(join),
        len(join.keys) + len(times),
        tuple(map(duckdb_type, types)),
        tuple(snapshot),
        version,
        pin,
        lake,
        log,
        tuple(dict.fromkeys([COMMIT, ARRIVED, POSITION, *fields])),
        tuple(files),
        changes_sql(join, "changes"),
        history=join.as_of is not None,
    )


_versions: dict[str, tuple[int, int]] = {}  # of each table: the first and the last that can be shown
_used: dict[str, float] = {}  # when each was shown last


def forget_tables() -> None:
    """The connection was closed."""
    _versions.clear()
    _used.clear()


def show_table(connection: duckdb.DuckDBPyConnection, at: TableAt) -> None:
    """Make the rows of a table at a pin those of its name."""
    _used[_all(at)] = time.monotonic()
    try:
        first, last = _versions.get(_all(at), (LAST, 0))
        # The files of the log begin at the snapshot's version: what is older than that cannot be brought on.
        if at.pin < first or last < at.version:
            _drop_unused(connection)
            _load(connection, at)
        if at.pin > _versions[_all(at)][1]:
            _advance(connection, at)
    except BaseException:
        _versions.pop(_all(at), None)  # it may be half advanced: the next one loads it again
        raise
    rows = f"SELECT * FROM {_all(at)} WHERE _begins <= {at.pin} AND _ends > {at.pin}"
    kept = "" if at.history else " AND NOT _deleted"
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {at.name} AS {rows}{kept}")


def _drop_unused(connection: duckdb.DuckDBPyConnection) -> None:
    """Of views that were edited or dropped, and of other workspaces: they would fill the memory of the worker."""
    now = time.monotonic()
    for name in [name for name, used in _used.items() if now - used > UNUSED_S]:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        _versions.pop(name, None)
        del _used[name]


def _all(at: TableAt) -> str:
    # Workers outlive a workspace: the table of the same name in another one is another table.
    return f"{at.name}_{crc32(at.lake.encode()):08x}"


def _load(connection: duckdb.DuckDBPyConnection, at: TableAt) -> None:
    if at.pin < at.version:
        raise ValueError(f"the snapshot of table {at.log.name} is of version {at.version}, after {at.pin}")
    columns = ", ".join(
        [
            *(f"CAST({name} AS {of}) AS {name}" for name, of in zip(_columns(at), at.columns, strict=True)),
            "_deleted",
            "_order",
            "CAST(0 AS BIGINT) AS _begins",
            f"CAST({LAST} AS BIGINT) AS _ends",
        ]
    )
    files = ", ".join(f"'{path}'" for path in at.snapshot)
    rows = f"read_parquet([{files}])" if at.version else f"({at.sql})"
    connection.register("changes", _no_changes(at))
    try:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {_all(at)} AS SELECT {columns} FROM {rows}")
    finally:
        connection.unregister("changes")
    _versions[_all(at)] = (at.version, at.version)


def _no_changes(at: TableAt) -> pa.Table:
    schema = table_schema(at.log)
    return pa.schema([schema.field(name) for name in at.reads]).empty_table()


def _columns(at: TableAt) -> list[str]:
    return [*at.key_names, *(f"_column_{number}" for number in range(len(at.columns) - at.keys))]


def _advance(connection: duckdb.DuckDBPyConnection, at: TableAt) -> None:
    """Bring the table on to the pin by the changes since the version that it has."""
    first, last = _versions[_all(at)]
    tables = list(_changes(at, (last, at.pin)))
    if tables:
        connection.register("changes", pa.concat_tables(tables))
        try:
            _merge(connection, at)
        finally:
            connection.unregister("changes")
    kept = max(first, at.pin - KEPT)
    if kept > first:
        connection.execute(f"DELETE FROM {_all(at)} WHERE _ends <= {kept}")
    _versions[_all(at)] = (kept, at.pin)


def _merge(connection: duckdb.DuckDBPyConnection, at: TableAt) -> None:
    """Add the rows that are the latest of their keys in some version, and end those that they follow."""
    keys, rest = ", ".join(at.key_names), _columns(at)[at.keys :]
    same = " AND ".join(f"_t.{key} = _f.{key}" for key in at.key_names)
    # A key that has NULL, of a table AS SELECT, is equal to none: its rows would pile up.
    whole = " AND ".join(f"{key} IS NOT NULL" for key in at.key_names)
    # In a struct, since arg_max leaves out values that are NULL.
    row = ", ".join(f"'{name}': {name}" for name in (*rest, "_deleted"))
    columns = ", ".join([*at.key_names, *(f"_row.{name} AS {name}" for name in (*rest, "_deleted")), "_order"])
    current = f"SELECT {keys}, _order FROM {_all(at)} WHERE _ends = {LAST}"
    earlier = f"PARTITION BY {_of('_f', at)} ORDER BY {COMMIT} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    ends = f"lead({COMMIT} + 1, 1, CAST({LAST} AS BIGINT)) OVER (PARTITION BY {keys} ORDER BY {COMMIT})"
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE _fresh AS WITH latest AS ("
        f"SELECT {keys}, {COMMIT}, arg_max({{{row}}}, _order) AS _row, max(_order) AS _order "
        f"FROM ({at.sql}) WHERE {whole} GROUP BY {keys}, {COMMIT}), "
        f"ordered AS (SELECT _f.*, _t._order AS _now, max(_f._order) OVER ({earlier}) AS _before "
        f"FROM latest AS _f LEFT JOIN ({current}) AS _t ON {same}), "
        "newer AS (SELECT * FROM ordered "
        "WHERE (_now IS NULL OR _order > _now) AND (_before IS NULL OR _order > _before)) "
        f"SELECT {columns}, {COMMIT} + 1 AS _begins, {ends} AS _ends FROM newer"
    )
    first = f"SELECT {keys}, min(_begins) AS _begins FROM _fresh GROUP BY {keys}"
    connection.execute(
        f"UPDATE {_all(at)} AS _t SET _ends = _f._begins FROM ({first}) AS _f WHERE {same} AND _t._ends = {LAST}"
    )
    connection.execute(f"INSERT INTO {_all(at)} BY NAME SELECT * FROM _fresh")
    connection.execute("DROP TABLE _fresh")


def _of(alias: str, at: TableAt) -> str:
    return ", ".join(f"{alias}.{key}" for key in at.key_names)


def _changes(at: TableAt, commits: tuple[int, int]) -> Iterator[pa.Table]:
    for path in at.files:
        groups = range(len(shape_of(path).groups))
        for rows in read_filled(path, groups, at.log, at.reads):
            commit = rows.column(COMMIT)
            within = pc.and_(pc.greater_equal(commit, commits[0]), pc.less(commit, commits[1]))
            if (some := rows.filter(within)).num_rows:
                yield some
