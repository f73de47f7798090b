"""The cells of a view over a table: computed from all rows of the table, or advanced by those that a step changed.

A step takes rows away from cells and adds rows to cells. What it takes away is subtracted where aggregates subtract;
minima, maxima and the like stay unless what it takes away is what they keep. All other cells that lose a row are
computed again: for that the store keeps, of a view with such aggregates, what it reads of each row and the row's cell.
A cell without rows stays as long as somebody follows the view, with no event in it: readers skip it, and those who
follow the view learn that it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import duckdb

from headrace.aggregate import Aggregate, ArrowFunction
from headrace.aggregate.merges import SUM
from headrace.define.model import ARRIVED, Stream, View
from headrace.define.relation import PLACE
from headrace.duckdb_connections import run
from headrace.engine.duckdb_terms import duckdb_name, duckdb_type
from headrace.engine.duckdb_views import duckdb_view
from headrace.language.terms import Expression
from headrace.store.duckdb.stored_rows import ADDED, POSITION, ROW_ID, changed_rows, present_rows
from headrace.store.duckdb.table_sql import ROW, place_column, same_place
from headrace.store.key_ids import key_id_of_duckdb
from headrace.store.partial_columns import CORRECTIONS, EVENTS, KEY_ID, PANE, partial_columns, partials_of, plain_name
from headrace.store.version import Version

_ROWS, _CELLS, _ANEW = "_changed_rows", "_changed_cells", "_cells_anew"
_LOST = "_lost"  # of a cell: whether it lost what cannot be subtracted


def made_table(view: Version, table: Version) -> str:
    """The name of the table that records the rows of which a version was made, for cells that are computed again.

    `table` is the version of the table that has them.
    """
    prefix = "made" if subtracts(view.view) else "rows"
    return f"{prefix}_{plain_name(view.view.name)}_{view.home}_{table.home}"


def subtracts(view: View) -> bool:
    """Return whether a cell of the view that loses a row is never computed again."""
    return all(column.aggregate.subtracts for column in view.columns)


def is_made_of(connection: duckdb.DuckDBPyConnection, view: Version, table: Version) -> bool:
    """Return whether a version of a view was made of the rows of this version of its table."""
    query = "SELECT count(*) FROM duckdb_tables() WHERE table_name = ? AND NOT temporary"
    return bool(run(connection, query, [made_table(view, table)])[0][0])


def drop_rows(connection: duckdb.DuckDBPyConnection, view: Version) -> None:
    """Drop what a version was made of."""
    pattern = rf"(rows|made)_{plain_name(view.view.name)}_{view.home}_\d+"  # a view may be called as another, with _1
    query = "SELECT table_name FROM duckdb_tables() WHERE regexp_full_match(table_name, ?) AND NOT temporary"
    for (table,) in run(connection, query, [pattern]):
        run(connection, f"DROP TABLE {duckdb_name(table)}")


def functions_of(view: View) -> tuple[ArrowFunction, ...]:
    """The functions that its aggregates call and DuckDB does not have, once each."""
    functions: list[ArrowFunction] = []
    for column in view.columns:
        functions += column.aggregate.lifts
        functions += [column.aggregate.prepares] if column.aggregate.prepares else []
    return tuple({function.name: function for function in functions}.values())


def fill(
    connection: duckdb.DuckDBPyConnection, view: Version, cells: str, table: Version, sources: Sequence[str]
) -> None:
    """Make a version of all rows of its table; `cells` is its speed table, `sources` are those of the table."""
    row_table, names = duckdb_name(made_table(view, table)), ", ".join(_columns(view.view))
    rows = read_rows(view.view, present_rows(table.view, [name for name, _ in view.view.reads], sources))
    none = " LIMIT 0" if subtracts(view.view) else ""
    run(connection, f"CREATE TABLE {row_table} AS {rows}{none}")
    run(connection, f"DELETE FROM {duckdb_name(cells)}")  # of a version that served before
    source = f"({rows})" if none else row_table
    run(connection, f"INSERT INTO {duckdb_name(cells)} ({names}) {fold_rows(view.view, source)}")


def follow(
    connection: duckdb.DuckDBPyConnection, view: Version, cells: str, table: Version, *, keep_empty: bool
) -> str | None:
    """Advance a version after a step of its table, whose `changed_rows` are there.

    Returns the name of a table with the cells that have changed; None if the version is not made of what the table had.
    """
    names = [ROW_ID, *(duckdb_name(name) for name, _ in view.view.reads), ARRIVED, POSITION, ADDED]
    changed = f"SELECT {', '.join(names)} FROM {changed_rows(table)}"
    run(connection, f"CREATE OR REPLACE TEMP TABLE {_ROWS} AS {read_rows(view.view, changed)}")
    run(connection, f"CREATE OR REPLACE TEMP TABLE {_CELLS} AS {_changed_cells(view.view, cells)}")
    if run(connection, f"SELECT 1 FROM {_CELLS} WHERE {EVENTS} < 0 LIMIT 1"):
        return None
    if not subtracts(view.view):
        _replace_rows(connection, made_table(view, table))
        _compute_anew(connection, view.view, made_table(view, table))
    target, columns = duckdb_name(cells), _columns(view.view)
    values = ", ".join(f"{name} = _c.{name}" for name in _counted(view.view))
    run(connection, f"UPDATE {target} SET {values} FROM {_CELLS} AS _c WHERE {same_place(view.view, target, '_c')}")
    inserted = f"SELECT {', '.join(columns)} FROM {_CELLS} WHERE {ROW} IS NULL AND {EVENTS} > 0"
    run(connection, f"INSERT INTO {target} ({', '.join(columns)}) {inserted}")
    if not keep_empty:
        empty = f"FROM {_CELLS} AS _c WHERE _c.{EVENTS} = 0 AND {same_place(view.view, target, '_c')}"
        run(connection, f"DELETE FROM {target} WHERE EXISTS ({empty})")
    return _CELLS


def _changed_cells(view: View, cells: str) -> str:
    """A query for the cells that a step changes: their places, and their rows as they are then.

    Each column is merged with that of the rows added, then that of the rows taken away is subtracted.
    """
    keys = [duckdb_name(key.name) for key in view.keys]
    folded = [KEY_ID, PANE, *(f"any_value({key}) AS {key}" for key in keys)]
    for name in _counted(view):
        folded += [f"any_value({name}) FILTER (WHERE {ADDED}) AS {_plus(name)}"]
        folded += [f"any_value({name}) FILTER (WHERE NOT {ADDED}) AS {_minus(name)}"]
    steps = f"SELECT {', '.join(folded)} FROM ({fold_rows(view, _ROWS, ADDED)}) GROUP BY {KEY_ID}, {PANE}"
    now = dict(_columns_now(view))
    events, lost = now.pop(EVENTS), " OR ".join(_losses(view)) or "false"
    selected = [f"_t.{place_column(view)} AS {ROW}", *(f"_s.{name}" for name in (KEY_ID, PANE, *keys))]
    selected += [f"{events} AS {EVENTS}"]
    selected += [f"CASE WHEN {events} > 0 THEN {value} END AS {name}" for name, value in now.items()]
    selected += [f"CAST(0 AS BIGINT) AS {CORRECTIONS}", f"{events} > 0 AND ({lost}) AS {_LOST}"]
    return (
        f"SELECT {', '.join(selected)} FROM ({steps}) AS _s LEFT JOIN {duckdb_name(cells)} AS _t "
        f"ON _t.{KEY_ID} = _s.{KEY_ID} AND _t.{PANE} = _s.{PANE} ORDER BY {ROW}"
    )


def _columns_now(view: View) -> Iterator[tuple[str, str]]:
    """The value of each column of a cell after a step, from those of the cell `t` and of the step `s`."""
    plus, minus = f"_s.{_plus(EVENTS)}", f"_s.{_minus(EVENTS)}"
    yield EVENTS, f"coalesce(_t.{EVENTS}, 0) + coalesce({plus}, 0) - coalesce({minus}, 0)"
    for aggregate in _aggregates(view):
        columns = [(duckdb_name(name), part) for name, part in partial_columns(aggregate)]
        merged = []
        for name, part in columns:
            mine, theirs = f"_t.{name}", f"_s.{_plus(name)}"
            merged.append(f"coalesce({part.merge.sql.format(mine, theirs)}, {mine}, {theirs})")
        if aggregate.subtracts:
            merged = list(aggregate.subtract_columns(merged, [f"_s.{_minus(name)}" for name, _ in columns]))
        for (name, part), value in zip(columns, merged, strict=True):
            yield name, f"CAST({value} AS {duckdb_type(part.type)})"


def _losses(view: View) -> Iterator[str]:
    """Conditions under which a cell lost something that cannot be subtracted."""
    for aggregate in _aggregates(view):
        for name, part in partial_columns(aggregate) if not aggregate.subtracts else ():
            mine, minus = f"_t.{duckdb_name(name)}", f"_s.{_minus(duckdb_name(name))}"
            if part.merge.chooses:
                yield f"({minus} IS NOT NULL AND (_t.{EVENTS} IS NULL OR {minus} IS NOT DISTINCT FROM {mine}))"
            elif part.merge == SUM:
                yield f"coalesce({minus} <> 0, false)"
            else:
                yield f"{minus} IS NOT NULL"


def _replace_rows(connection: duckdb.DuckDBPyConnection, row_table: str) -> None:
    rows = duckdb_name(row_table)
    old_ids = f"SELECT {ROW_ID} FROM {_ROWS} WHERE NOT {ADDED}"
    run(connection, f"DELETE FROM {rows} WHERE {ROW_ID} IN ({old_ids})")
    run(connection, f"INSERT INTO {rows} BY NAME SELECT * EXCLUDE ({ADDED}) FROM {_ROWS} WHERE {ADDED}")


def _compute_anew(connection: duckdb.DuckDBPyConnection, view: View, row_table: str) -> None:
    """Set the cells that lost what cannot be subtracted to what their rows say."""
    lost = f"SELECT {KEY_ID}, {PANE} FROM {_CELLS} WHERE {_LOST}"
    if not run(connection, f"{lost} LIMIT 1"):
        return
    rows = f"(SELECT * FROM {duckdb_name(row_table)} SEMI JOIN ({lost}) USING ({KEY_ID}, {PANE}))"
    run(connection, f"CREATE OR REPLACE TEMP TABLE {_ANEW} AS {fold_rows(view, rows)}")
    values = ", ".join(f"{name} = _a.{name}" for name in _counted(view))
    same = f"{_CELLS}.{KEY_ID} = _a.{KEY_ID} AND {_CELLS}.{PANE} = _a.{PANE}"
    run(connection, f"UPDATE {_CELLS} SET {values} FROM {_ANEW} AS _a WHERE {same}")


def _plus(name: str) -> str:
    return duckdb_name(f"+{name}")


def _minus(name: str) -> str:
    return duckdb_name(f"-{name}")


def _aggregates(view: View) -> list[Aggregate]:
    """The aggregates of a view whose columns are all that it stores, once each."""
    return list({partial_columns(column.aggregate)[0][0]: column.aggregate for column in view.columns}.values())


def _counted(view: View) -> list[str]:
    """The columns of a cell that change with its rows."""
    return [EVENTS, *(duckdb_name(name) for name, _ in partials_of(view))]


def _columns(view: View) -> list[str]:
    keys = [duckdb_name(key.name) for key in view.keys]
    return [KEY_ID, PANE, *keys, CORRECTIONS, *_counted(view)]


@lru_cache(maxsize=256)
def _written(view: View) -> View:
    assert view.over is not None, "it is over a table"
    return duckdb_view(Stream(view.over.table, ()), view)


def read_rows(view: View, present: str) -> str:
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


def fold_rows(view: View, rows: str, *groups: str) -> str:
    """A query for the cells of such rows, with the columns of a speed table; one for each of further groups."""
    written, partials = _written(view), dict[str, str]()
    for column, translated in zip(view.columns, written.columns, strict=True):
        aggregate, function = translated.aggregate, column.aggregate.prepares
        if function is not None:
            argument = Expression.raw(f"{function.name}({aggregate.argument.sql})", aggregate.argument.type)
            aggregate = replace(aggregate, arguments=(argument, *aggregate.arguments[1:]))
        names = [name for name, _ in partial_columns(column.aggregate)]
        partials.update(zip(names, aggregate.duckdb_sql(_time_us(view), POSITION, PLACE), strict=True))
    keys = [f"any_value({key.expression.sql}) AS {duckdb_name(key.name)}" for key in written.keys]
    columns = [KEY_ID, PANE, *groups, *keys, f"CAST(0 AS BIGINT) AS {CORRECTIONS}", f"count(*) AS {EVENTS}"]
    types = {name: duckdb_type(part.type) for name, part in partials_of(view)}
    columns += [f"CAST({partials[name]} AS {of}) AS {duckdb_name(name)}" for name, of in types.items()]
    return f"SELECT {', '.join(columns)} FROM {rows} GROUP BY {', '.join([KEY_ID, PANE, *groups])}"


def _time_us(view: View) -> str:
    assert view.over is not None, "it is over a table"
    return f"epoch_us({duckdb_name(view.over.event_time or ARRIVED)})"
