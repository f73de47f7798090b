"""The rows of a view over a table, from the present rows of the table: all of them, or those of the keys that changed.

For each row of the table that passes WHERE the store keeps what the view reads of it, and the cell of the view that it
is in. A change replaces the rows of its keys, then the cells that these were in and are in now are computed anew.
A cell without rows stays with no event in it: readers skip it, and those who follow the view learn that it is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import duckdb
import pyarrow as pa

from headrace.aggregate import Function
from headrace.define.expression.computed import duckdb_name, duckdb_type
from headrace.define.expression.duckdb_face import duckdb_face
from headrace.define.model import ARRIVED, Stream, View
from headrace.define.relation import PLACE
from headrace.store.base import CORRECTIONS, EVENTS, KEY_ID, PANE, Version
from headrace.store.columns import partial_columns, partials_of, plain_name
from headrace.store.duckdb.database import run
from headrace.store.key_ids import key_id_of_duckdb
from headrace.types import Expression

ROW_ID, POSITION = "_row_id", "_position"
_TOUCHED, _CHANGED, _CELLS, _FRESH = "_touched_ids", "_changed_rows", "_changed_cells", "_fresh_rows"


def rows_table(view: Version, table: Version) -> str:
    """The name of the table with the rows that a version was made of; `table` is the version that they come from."""
    return f"rows_{plain_name(view.view.name)}_{view.home}_{table.home}"


def is_made_of(connection: duckdb.DuckDBPyConnection, view: Version, table: Version) -> bool:
    """Whether a version of a view was made of the rows of this version of its table."""
    query = "SELECT count(*) FROM duckdb_tables() WHERE table_name = ? AND NOT temporary"
    return bool(run(connection, query, [rows_table(view, table)])[0][0])


def drop_rows(connection: duckdb.DuckDBPyConnection, view: Version) -> None:
    """Drop what a version was made of."""
    prefix = f"rows_{plain_name(view.view.name)}_{view.home}_"
    query = "SELECT table_name FROM duckdb_tables() WHERE starts_with(table_name, ?) AND NOT temporary"
    for (name,) in run(connection, query, [prefix]):
        run(connection, f"DROP TABLE {duckdb_name(name)}")


def functions_of(view: View) -> tuple[Function, ...]:
    """The functions that its aggregates call and DuckDB does not have."""
    functions: list[Function] = []
    for column in view.columns:
        functions += column.aggregate.lifts
        functions += [column.aggregate.prepares] if column.aggregate.prepares else []
    return tuple(functions)


def fill(
    connection: duckdb.DuckDBPyConnection, view: Version, cells: str, table: Version, sources: Sequence[str]
) -> None:
    """Make a version's rows of all rows of its table; `cells` is its speed table, `sources` are those of the table."""
    rows = duckdb_name(rows_table(view, table))
    run(connection, f"CREATE TABLE {rows} AS {_read_rows(view.view, _present(view.view, table.view, sources))}")
    names = ", ".join(_columns(view.view))
    run(connection, f"DELETE FROM {duckdb_name(cells)}")  # of a version that served before
    run(connection, f"INSERT INTO {duckdb_name(cells)} ({names}) {_fold(view.view, rows)}")


def follow(
    connection: duckdb.DuckDBPyConnection,
    view: Version,
    cells: str,
    table: Version,
    sources: Sequence[str],
    touched: pa.Table | Sequence[str],
) -> str | None:
    """Bring a version's rows up to date after some keys of its table were touched: the KEY_ID of a table, or of files.

    Returns the name of a table with the cells that have changed; None if there are none.
    """
    rows, names = duckdb_name(rows_table(view, table)), ", ".join(_columns(view.view))
    if isinstance(touched, pa.Table):
        connection.register(_TOUCHED, touched)
        ids, parameters = _TOUCHED, {}
    else:
        ids, parameters = "read_parquet($files)", {"files": list(touched)}
    try:
        changed = f"SELECT DISTINCT CAST({KEY_ID} AS UUID) AS {ROW_ID} FROM {ids}"
        run(connection, f"CREATE OR REPLACE TEMP TABLE {_CHANGED} AS {changed}", parameters)
    finally:
        if ids == _TOUCHED:
            connection.unregister(_TOUCHED)
    fresh = _read_rows(view.view, _present(view.view, table.view, sources, changed=True))
    run(connection, f"CREATE OR REPLACE TEMP TABLE {_FRESH} AS {fresh}")
    cell = f"{KEY_ID}, {PANE}"
    run(
        connection,
        f"CREATE OR REPLACE TEMP TABLE {_CELLS} AS SELECT DISTINCT {cell} FROM ("
        f"SELECT {cell} FROM {rows} SEMI JOIN {_CHANGED} USING ({ROW_ID}) UNION ALL SELECT {cell} FROM {_FRESH})",
    )
    run(connection, f"DELETE FROM {rows} WHERE {ROW_ID} IN (SELECT {ROW_ID} FROM {_CHANGED})")
    run(connection, f"INSERT INTO {rows} SELECT * FROM {_FRESH}")
    if not run(connection, f"SELECT 1 FROM {_CELLS} LIMIT 1"):
        return None
    target, empty = duckdb_name(cells), ", ".join(f"{duckdb_name(name)} = NULL" for name, _ in partials_of(view.view))
    inside = f"({KEY_ID}, {PANE}) IN (SELECT {cell} FROM {_CELLS})"
    now = f"(SELECT * FROM {rows} SEMI JOIN {_CELLS} USING ({cell}))"
    run(connection, f"CREATE OR REPLACE TEMP TABLE {_FRESH} AS {_fold(view.view, now)}")
    run(connection, f"DELETE FROM {target} WHERE ({KEY_ID}, {PANE}) IN (SELECT {cell} FROM {_FRESH})")
    run(connection, f"UPDATE {target} SET {EVENTS} = 0, {CORRECTIONS} = 0, {empty} WHERE {inside}")
    run(connection, f"INSERT INTO {target} ({names}) SELECT {names} FROM {_FRESH}")
    return _CELLS


def _columns(view: View) -> list[str]:
    keys = [duckdb_name(key.name) for key in view.keys]
    return [KEY_ID, PANE, *keys, EVENTS, CORRECTIONS, *(duckdb_name(name) for name, _ in partials_of(view))]


def present_count(table: View, sources: Sequence[str]) -> str:
    """A query for how many rows a table has."""
    query, row = _latest(table, sources)
    return f"SELECT count(*) FROM ({query}) WHERE {row}.value.deleted IS NOT TRUE"


def _present(view: View, table: View, sources: Sequence[str], *, changed: bool = False) -> str:
    """A query for the present rows of a table: ROW_ID, the columns that a view reads of them, and their order."""
    read, row = _latest(table, sources, f" SEMI JOIN {_CHANGED} ON {KEY_ID} = {ROW_ID}" if changed else "")
    fields = _fields_of(table)
    columns = [f"{KEY_ID} AS {ROW_ID}", *(f"{fields[name]} AS {duckdb_name(name)}" for name, _ in view.reads)]
    columns += [f"make_timestamptz({row}.time) AS {ARRIVED}", f"{row}.position AS {POSITION}"]
    return f"SELECT {', '.join(columns)} FROM ({read}) WHERE {row}.value.deleted IS NOT TRUE"


def _latest(table: View, sources: Sequence[str], within: str = "") -> tuple[str, str]:
    """A query for the latest row of each key, deleted or not, and the name of its column for the row."""
    ((name, part),) = partials_of(table)
    row = duckdb_name(name)
    keys = [duckdb_name(key.name) for key in table.keys]
    read = " UNION ALL ".join(f"SELECT {', '.join([KEY_ID, *keys, row])} FROM {source}{within}" for source in sources)
    if len(sources) > 1:  # each has a key once
        any_keys = [f"any_value({key}) AS {key}" for key in keys]
        latest = part.merge.fold
        assert latest is not None, "the store folds rows by SQL"
        folded = [KEY_ID, *any_keys, f"{latest.format(row)} AS {row}"]
        read = f"SELECT {', '.join(folded)} FROM ({read}) GROUP BY {KEY_ID}"
    return read, row


def _fields_of(table: View) -> dict[str, str]:
    """DuckDB's SQL for each column of a table, over its stored rows."""
    ((name, _),) = partials_of(table)
    fields = {key.name: duckdb_name(key.name) for key in table.keys}
    shape = table.shape
    assert shape is not None, "a table's view has one"
    for output in shape.outputs:
        fields[output.name] = f"{duckdb_name(name)}.value.{output.expression.sql.rpartition('.')[2]}"
    return fields


@lru_cache(maxsize=256)
def _written(view: View) -> View:
    assert view.over is not None, "it is over a table"
    return duckdb_face(Stream(view.over.table, ()), view)


def _read_rows(view: View, present: str) -> str:
    """A query for the rows of a view's table, with the cell of each, without those that WHERE leaves out."""
    written, conditions = _written(view), []
    time_us = _time_us(view)
    pane = "CAST(0 AS BIGINT)"
    if view.window:
        size_us = view.window.pane_ms * 1000
        # The remainder is made positive: a time of the row may lie before 1970.
        pane = f"({time_us} - (({time_us} % {size_us}) + {size_us}) % {size_us}) // 1000"
        conditions.append(f"{time_us} IS NOT NULL")
    conditions += [f"({written.where.sql})"] if written.where else []
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    key_id = key_id_of_duckdb([key.expression.sql for key in written.keys])
    return f"SELECT *, {pane} AS {PANE}, CAST({key_id} AS UUID) AS {KEY_ID} FROM ({present}){where}"


def _fold(view: View, rows: str) -> str:
    """A query for the cells of such rows, with the columns of a speed table."""
    written, partials = _written(view), dict[str, str]()
    for column, face in zip(view.columns, written.columns, strict=True):
        aggregate, function = face.aggregate, column.aggregate.prepares
        if function is not None:
            argument = Expression(f"{function.name}({aggregate.argument.sql})", aggregate.argument.type)
            aggregate = replace(aggregate, arguments=(argument, *aggregate.arguments[1:]))
        names = [name for name, _ in partial_columns(column.aggregate)]
        partials.update(zip(names, aggregate.duckdb_sql(_time_us(view), POSITION, PLACE), strict=True))
    keys = [f"any_value({key.expression.sql}) AS {duckdb_name(key.name)}" for key in written.keys]
    columns = [KEY_ID, PANE, *keys, f"count(*) AS {EVENTS}", f"CAST(0 AS BIGINT) AS {CORRECTIONS}"]
    types = {name: duckdb_type(part.type) for name, part in partials_of(view)}
    columns += [f"CAST({partials[name]} AS {of}) AS {duckdb_name(name)}" for name, of in types.items()]
    return f"SELECT {', '.join(columns)} FROM {rows} GROUP BY {KEY_ID}, {PANE}"


def _time_us(view: View) -> str:
    assert view.over is not None, "it is over a table"
    return f"epoch_us({duckdb_name(view.over.event_time or ARRIVED)})"
