"""The SQL that makes the tables of a version and merges into them. Text only: it runs nothing."""

from __future__ import annotations

from headrace.aggregate import BatchOnly, PartialColumn
from headrace.define.model import View
from headrace.engine.duckdb_terms import duckdb_name, duckdb_type
from headrace.store.partial_columns import (
    CORRECTIONS,
    EVENTS,
    KEY_ID,
    PANE,
    partials_of,
    plain_name,
)

ROWS = "_partials"  # the partials of a step, if they are not in files
DUCKDB_ROW = "rowid"  # of each table of DuckDB
STAGED, ROW = "_staged", "_row"  # the merged rows of a step, and the place of each in its table


def speed_table(view: str, home: int, from_commit: int, stream_at: int = 0) -> str:
    """The name of a speed table; `stream_at` is the place of its stream among those of the view."""
    name = f"speed_{plain_name(view)}_{home}_{from_commit}"
    return f"{name}-{stream_at}" if stream_at else name  # the first one is named as before there could be several


def row_columns(view: View) -> list[tuple[str, str]]:
    """Name and type of every column of a table of rows, in SQL."""
    columns = [(KEY_ID, "UUID NOT NULL"), (PANE, "BIGINT NOT NULL")]
    columns += [(duckdb_name(key.name), duckdb_type(key.expression.type)) for key in view.keys]
    columns += [(EVENTS, "BIGINT NOT NULL"), (CORRECTIONS, "BIGINT NOT NULL")]
    return columns + [(duckdb_name(name), duckdb_type(part.type)) for name, part in partials_of(view)]


def create_speed(view: View, table: str) -> str:
    """An empty speed table. No index: a merge joins by hash, and reads filter by key columns."""
    return f"CREATE TABLE {duckdb_name(table)} ({', '.join(f'{name} {of}' for name, of in row_columns(view))})"


def fold_column(name: str, part: PartialColumn) -> str:
    """One partial column of a group of rows, merged, under its own name."""
    merge, column = part.merge, duckdb_name(name)
    if merge.fold is None:
        folded = f"{merge.name}_fold(list({column}) FILTER (WHERE {column} IS NOT NULL))"
    else:
        folded = merge.fold.format(column)
    return f"CAST({folded} AS {duckdb_type(part.type)}) AS {column}"


def counted(*names: str) -> list[str]:
    """Counts of a group of rows, added up under their own names."""
    return [f"CAST(sum({name}) AS BIGINT) AS {name}" for name in names]


def stored_columns(view: View, *, complete: bool = True) -> str:
    """The columns of partials as Spark writes them, as expressions that give each its type in the store.

    Unless `complete`, what only the batch layer fills is left out.
    """
    keys = [(duckdb_name(key.name), duckdb_type(key.expression.type)) for key in view.keys]
    columns = [f"CAST({KEY_ID} AS UUID) AS {KEY_ID}", PANE, *(f"CAST({name} AS {of}) AS {name}" for name, of in keys)]
    partials = [read_column(name, part, complete=complete) for name, part in partials_of(view)]
    return ", ".join([*columns, EVENTS, CORRECTIONS, *partials])


def read_column(name: str, part: PartialColumn, *, complete: bool) -> str:
    """A stored column; unless `complete`, what only the batch layer fills is left out."""
    left_out = None if complete else part.batch_only
    return f"{left_out.absent} AS {duckdb_name(name)}" if left_out else duckdb_name(name)


def batch_only_columns(view: View) -> list[tuple[str, BatchOnly]]:
    """The columns of a view that only the batch layer fills."""
    return [(name, part.batch_only) for name, part in partials_of(view) if part.batch_only]


def folded_columns(view: View, pane: str = PANE) -> str:
    """The columns of all rows of one key and one pane, folded, or of the groups that `pane` gives."""
    columns = [KEY_ID, f"{pane} AS {PANE}"]
    columns += [f"any_value({duckdb_name(key.name)}) AS {duckdb_name(key.name)}" for key in view.keys]
    columns += counted(EVENTS, CORRECTIONS) + [fold_column(name, part) for name, part in partials_of(view)]
    return ", ".join(columns)


def merge_many(view: View, table_name: str, source: str) -> list[str]:
    """The statements that merge partials, which are a table or a table function, into a speed table.

    Rows are updated in place, since deleting and inserting them would leave tombstones, and in the
    order of their row ids: in any other order DuckDB takes ten times as long (MERGE does, when the
    table is about as small as the partials).
    """
    table, fixed, merged = duckdb_name(table_name), fixed_columns(view), _merged(view)
    selected = [f"_t.{place_column(view)} AS {ROW}", *(f"_s.{name}" for name in fixed)]
    selected += [f"{value} AS {name}" for name, value in merged.items()]
    return [
        f"CREATE OR REPLACE TEMP TABLE {STAGED} AS SELECT {', '.join(selected)} FROM ({_folded(view, source)}) AS _s "
        f"LEFT JOIN {table} AS _t ON _t.{KEY_ID} = _s.{KEY_ID} AND _t.{PANE} = _s.{PANE} ORDER BY {ROW}",
        f"UPDATE {table} SET {', '.join(f'{name} = _s.{name}' for name in merged)} "
        f"FROM {STAGED} AS _s WHERE {same_place(view, table, '_s')}",
        f"INSERT INTO {table} ({', '.join([*fixed, *merged])}) "
        f"SELECT {', '.join([*fixed, *merged])} FROM {STAGED} WHERE {ROW} IS NULL",
    ]


def place_column(view: View) -> str:
    """The column with the place of a row in its table: DuckDB's, unless a key of that name hides it."""
    return PANE if any(key.name.lower() == DUCKDB_ROW for key in view.keys) else DUCKDB_ROW


def same_place(view: View, table: str, places: str) -> str:
    """SQL for whether a row of a table is the one that a row of `places` was selected of."""
    if place_column(view) == DUCKDB_ROW:
        return f"{table}.{DUCKDB_ROW} = {places}.{ROW}"
    return f"{table}.{KEY_ID} = {places}.{KEY_ID} AND {table}.{PANE} = {places}.{PANE}"


def merge_few(view: View, table_name: str, source: str, *, once: bool) -> str:
    """One statement that merges a few partials: it takes half of the time that those of `merge_many` take to plan.

    `once`: the partials have a (key, pane) once at most.
    """
    rows = f"SELECT {stored_columns(view)} FROM {source}" if once else _folded(view, source)
    merged = _merged(view)
    names = [*fixed_columns(view), *merged]
    return (
        f"MERGE INTO {duckdb_name(table_name)} AS _t USING ({rows}) AS _s "
        f"ON _t.{KEY_ID} = _s.{KEY_ID} AND _t.{PANE} = _s.{PANE} "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = {value}' for name, value in merged.items())} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f'_s.{name}' for name in names)})"
    )


def _folded(view: View, source: str) -> str:
    """Tasks do not exchange rows, so partials may have a (key, pane) several times."""
    rows = f"SELECT {stored_columns(view)} FROM {source}"
    return f"SELECT {folded_columns(view)} FROM ({rows}) GROUP BY {KEY_ID}, {PANE}"


def fixed_columns(view: View) -> list[str]:
    """The columns that identify a row."""
    return [KEY_ID, PANE, *(duckdb_name(key.name) for key in view.keys)]


def _merged(view: View) -> dict[str, str]:
    """The columns of a row `t` and partials `s` of one (key, pane), merged; those of `s` where there is no `t`."""
    merged = {name: f"coalesce(_t.{name} + _s.{name}, _s.{name})" for name in (EVENTS, CORRECTIONS)}
    for name, part in partials_of(view):
        mine, theirs = f"_t.{duckdb_name(name)}", f"_s.{duckdb_name(name)}"
        merged[duckdb_name(name)] = f"coalesce({part.merge.sql.format(mine, theirs)}, {mine}, {theirs})"
    return merged
