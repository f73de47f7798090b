"""The rows of a table: all that it has now, and those that a step takes away and adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import duckdb

from headrace.define.model import ARRIVED, View
from headrace.duckdb_connections import run
from headrace.engine.duckdb_terms import duckdb_name
from headrace.lazy import pa
from headrace.store.duckdb.table_sql import DUCKDB_ROW, place_column, stored_columns
from headrace.store.partial_columns import KEY_ID, partials_of, plain_name
from headrace.store.store_contract import Partials
from headrace.store.version import Version
from headrace.types import Type

ROW_ID, POSITION = "_row_id", "_position"
ADDED = "_added"  # of a row in a step: whether the table has it since, or had it before
_PARTS, _TOUCHED, _OLD, _NEW = "_touched_parts", "_touched_keys", "_old_rows", "_new_rows"


def present_count(table: View, sources: Sequence[str]) -> str:
    """A query for how many rows a table has."""
    row = _row_column(table)
    return f"SELECT count(*) FROM ({_latest(table, sources)}) WHERE {row}.value.deleted IS NOT TRUE"


def present_rows(table: View, reads: Iterable[str], sources: Sequence[str]) -> str:
    """A query for the present rows of a table: ROW_ID, the columns that are read of them, and their order."""
    return _select_rows(table, reads, f"({_latest(table, sources)})")


def changed_rows(table: Version) -> str:
    """The temporary table with the rows that a step of a table takes away and adds, as SQL writes its name."""
    return duckdb_name(f"_step_{plain_name(table.view.name)}")


def stage_changes(
    connection: duckdb.DuckDBPyConnection, table: Version, reads: Iterable[str], sources: Sequence[str], parts: Partials
) -> None:
    """Before the partials of a step are merged into a table: compute the rows that it takes away and adds.

    A row that the step leaves as it is, since a late change is not the latest of its key, is none of them.
    """
    files = [str(part) for part in parts if not isinstance(part, pa.Table)]
    tables = [part for part in parts if isinstance(part, pa.Table)]
    source, parameters = ("read_parquet($files)", {"files": files}) if files else (_PARTS, {})
    if not files:
        connection.register(_PARTS, pa.concat_tables(tables))
    try:
        columns = ", ".join(_stored(table.view))
        stored = f"SELECT {stored_columns(table.view)} FROM {source}"
        touched = f"CREATE OR REPLACE TEMP TABLE {_TOUCHED} AS SELECT {columns} FROM ({stored})"
        run(connection, touched, parameters)
    finally:
        if not files:
            connection.unregister(_PARTS)
    old = _latest(table.view, [_of_touched_keys(table.view, source) for source in sources])
    run(connection, f"CREATE OR REPLACE TEMP TABLE {_OLD} AS {old}")
    new = _latest(table.view, [_OLD, _TOUCHED], once=False)
    run(connection, f"CREATE OR REPLACE TEMP TABLE {_NEW} AS {new}")
    row = _row_column(table.view)
    selected = []
    for rows, others, added in ((_OLD, _NEW, "false"), (_NEW, _OLD, "true")):
        other = f"ANTI JOIN {others} AS _o ON _o.{KEY_ID} = _r.{KEY_ID} AND _o.{row} IS NOT DISTINCT FROM _r.{row}"
        query = _select_rows(table.view, reads, f"{rows} AS _r {other}")
        selected.append(f"SELECT *, {added} AS {ADDED} FROM ({query})")
    run(connection, f"CREATE OR REPLACE TEMP TABLE {changed_rows(table)} AS {' UNION ALL '.join(selected)}")
    for name in (_TOUCHED, _OLD, _NEW):
        run(connection, f"DROP TABLE {name}")


def _of_touched_keys(table: View, source: str) -> str:
    """The rows of a source that have a touched key. Their places are found first: then few rows are read completely."""
    if place_column(table) != DUCKDB_ROW:
        return f"(SELECT * FROM {source} SEMI JOIN {_TOUCHED} USING ({KEY_ID}))"
    places = f"SELECT _s.{DUCKDB_ROW} FROM {source} AS _s SEMI JOIN {_TOUCHED} USING ({KEY_ID})"
    return f"(SELECT * FROM {source} WHERE {DUCKDB_ROW} IN ({places}))"


def _latest(table: View, sources: Sequence[str], *, once: bool = True) -> str:
    """A query for the latest row of each key, deleted or not. `once`: a source has each key once."""
    columns = ", ".join(_stored(table))
    read = " UNION ALL ".join(f"SELECT {columns} FROM {source}" for source in sources)
    if once and len(sources) == 1:
        return read
    ((name, part),) = partials_of(table)
    fold = part.merge.fold
    assert fold is not None, "the store folds rows by SQL"
    keys = [duckdb_name(key.name) for key in table.keys]
    folded = [KEY_ID, *(f"any_value({key}) AS {key}" for key in keys)]
    folded.append(f"{fold.format(duckdb_name(name))} AS {duckdb_name(name)}")
    return f"SELECT {', '.join(folded)} FROM ({read}) GROUP BY {KEY_ID}"


def _select_rows(table: View, reads: Iterable[str], rows: str) -> str:
    row, fields = _row_column(table), _fields_of(table)
    columns = [f"{KEY_ID} AS {ROW_ID}", *(f"{fields[name]} AS {duckdb_name(name)}" for name in reads)]
    columns += [f"make_timestamptz({row}.time) AS {ARRIVED}", f"{row}.position AS {POSITION}"]
    return f"SELECT {', '.join(columns)} FROM {rows} WHERE {row}.value.deleted IS NOT TRUE"


def _stored(table: View) -> list[str]:
    return [KEY_ID, *(duckdb_name(key.name) for key in table.keys), _row_column(table)]


def _row_column(table: View) -> str:
    ((name, _),) = partials_of(table)
    return duckdb_name(name)


def _fields_of(table: View) -> dict[str, str]:
    """DuckDB's SQL for each column of a table, over its stored rows."""
    fields = {key.name: duckdb_name(key.name) for key in table.keys}
    shape = table.shape
    assert shape is not None, "a table's view has one"
    for output in shape.outputs:
        fields[output.name] = f"{_row_column(table)}.value.{output.expression.sql.rpartition('.')[2]}"
    return fields


def types_of(table: View) -> dict[str, Type]:
    """The type of each column of a table."""
    types = {key.name: key.expression.type for key in table.keys}
    return types | {output.name: output.expression.type for output in table.shape.outputs} if table.shape else types
