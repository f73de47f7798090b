"""The SQL that reads the tables of a version: the rows of a selection, merged by bucket and key. Text only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.aggregate import PartialColumn, Value
from headrace.define.model import View
from headrace.engine.duckdb_terms import duckdb_name, duckdb_type
from headrace.language.durations import DAY_MS
from headrace.store.duckdb.levels import parts_of
from headrace.store.duckdb.table_sql import (
    batch_only_columns,
    counted,
    fixed_columns,
    fold_column,
    read_column,
    stored_columns,
)
from headrace.store.key_ids import key_id_of
from headrace.store.partial_columns import (
    BATCH_EVENTS,
    BUCKET,
    CORRECTIONS,
    COUNTED,
    EVENTS,
    FIRST_US,
    FROM,
    KEY_ID,
    PANE,
    TO,
    UNTIL_US,
    partials_of,
    shown_partials,
)
from headrace.store.selection import Selection
from headrace.types import Type

# Stands for NULL after a flag that says so, where rows are compared with the last of a page.
STAND_INS = {
    "STRING": "''",
    "BOOLEAN": "false",
    "DATE": "DATE '1970-01-01'",
    "TIMESTAMP": "TIMESTAMPTZ '1970-01-01 00:00:00+00'",
}

FIRST, END, DAY = "_first", "_end", "_day"  # of a calendar: bounds of a window, and a UTC day that it shares time with
SPANS = "_spans"  # of keys: the spans of time in which rows are read
CELLS = "_cells"  # (key, pane) whose sessions are read
SESSION = "_session"  # the number of a row's session among those of its key
FEW_IDS = 10  # of keys; more are joined instead of written as literals


@dataclass(frozen=True)
class TableSource:
    """A table with rows of a version, each (key, pane) once at most; two of them never share a commit."""

    name: str  # as SQL writes it: of a speed table, or of a batch table's file
    batch: bool
    complete: bool = True  # else what only the batch layer fills is left out


def batch_only_bytes(view: View, sources: Sequence[TableSource], selection: Selection) -> tuple[str, list[Any]]:
    """A query for how many bytes these columns have in the selected rows, at most."""
    sizes = [f"least({EVENTS} * {of.bytes_per_event}, {of.most_bytes})" for _, of in batch_only_columns(view)]
    batch = [source for source in sources if source.batch]
    return _select(view, batch, selection, [f"CAST(coalesce(sum({' + '.join(sizes)}), 0) AS BIGINT)"])


def fold(
    view: View, sources: Sequence[TableSource], selection: Selection, *, ordered: bool = True
) -> tuple[str, list[Any]]:
    """One query over all sources of a version, and its parameters."""
    if selection.sessions:
        return _fold_sessions(view, sources, selection, ordered=ordered)
    if not ordered and _is_folded(view, sources, selection):
        return rows_of(view, sources, selection)
    bucket = _bucket(selection)
    by = [duckdb_name(name) for name in selection.by]
    groups = by if selection.bucket_ms is None else [bucket, *by]
    selected = [f"{bucket} AS {BUCKET}", *by, *counted(*COUNTED)]
    selected += [fold_column(name, part) for name, part in shown_partials(view)]
    query, parameters = _select(view, sources, selection, selected)
    query += f" GROUP BY {', '.join(groups)}" if groups else " HAVING count(*) > 0"
    if groups and ordered:
        first = selection.bucket_ms is not None and selection.newest_first
        orders = [f"{group} {'DESC' if first and at == 0 else 'NULLS FIRST'}" for at, group in enumerate(groups)]
        query += f" ORDER BY {', '.join(orders)}"
    if selection.limit is not None:
        query += f" LIMIT {int(selection.limit)}"
    return query, parameters


def _fold_sessions(
    view: View, sources: Sequence[TableSource], selection: Selection, *, ordered: bool
) -> tuple[str, list[Any]]:
    """The same for sessions of the kept keys."""
    by = [duckdb_name(name) for name in selection.by]
    rows, parameters = _numbered(view, sources, selection, by)
    query = f"SELECT {', '.join(_session_columns(view, by))} FROM ({rows}) GROUP BY {', '.join([*by, SESSION])}"
    conditions = _ends(selection)
    if selection.after is not None:
        types = {key.name: key.expression.type for key in view.keys}
        conditions.append(_behind(selection, BUCKET, types, parameters))
    query = f"SELECT * FROM ({query}){_where(conditions)}"
    if ordered:
        orders = [f"{BUCKET} DESC" if selection.newest_first else BUCKET, *(f"{name} NULLS FIRST" for name in by)]
        query += f" ORDER BY {', '.join(orders)}"
    return (query if selection.limit is None else f"{query} LIMIT {int(selection.limit)}"), parameters


def _session_columns(view: View, by: Iterable[str]) -> list[str]:
    """The columns of a session: its start, the keys, and its merged partials."""
    first = f"min({FIRST_US})"
    start = f"CAST(({first} - ({first} % 1000 + 1000) % 1000) // 1000 AS BIGINT) AS {BUCKET}"
    folded = [fold_column(name, part) for name, part in shown_partials(view)]
    return [start, *by, *counted(*COUNTED), *folded]


def _numbered(
    view: View, sources: Sequence[TableSource], selection: Selection, by: Sequence[str], within: str = ""
) -> tuple[str, list[Any]]:
    """The rows of a selection, each with the number of its session among those of the keys `by`."""
    rows, parameters = _select(view, sources, replace(selection, after=None), ["_r.*"], within)
    keys = f"PARTITION BY {', '.join(by)} " if by else ""
    before = f"OVER ({keys}ORDER BY {FIRST_US} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    begins = f"CASE WHEN {FIRST_US} <= max({UNTIL_US}) {before} THEN 0 ELSE 1 END AS _begins"
    # With RANGE, rows of the same time have the same number, whichever of them begins the session.
    number = f"sum(_begins) OVER ({keys}ORDER BY {FIRST_US} RANGE UNBOUNDED PRECEDING) AS {SESSION}"
    return f"SELECT *, {number} FROM (SELECT *, {begins} FROM ({rows}))", parameters


def _ends(selection: Selection) -> list[str]:
    """Conditions on the ends of sessions."""
    after, last = selection.session_ends
    conditions = [] if after is None else [f"{UNTIL_US} > {int(after) * 1000}"]
    return conditions if last is None else [*conditions, f"{UNTIL_US} <= {int(last) * 1000}"]


def sessions_with(view: View, sources: Sequence[TableSource]) -> tuple[str, list[Any]]:
    """The sessions that hold the cells in CELLS; the key id follows the start."""
    selection = Selection(by=(), sessions=True)
    cells = f"(SELECT DISTINCT CAST({KEY_ID} AS UUID) AS _cell_key, {PANE} AS _cell_pane FROM {CELLS})"
    rows, parameters = _numbered(view, sources, selection, [KEY_ID], f"SEMI JOIN {cells} ON _r.{KEY_ID} = _cell_key")
    names = [f"any_value({duckdb_name(key.name)}) AS {duckdb_name(key.name)}" for key in view.keys]
    columns = _session_columns(view, [f"CAST(_s.{KEY_ID} AS VARCHAR) AS {KEY_ID}", *names])
    held = f"_s.{KEY_ID} = _cell_key AND {PANE} = _cell_pane"
    query = (
        f"SELECT {', '.join(columns)} FROM ({rows}) AS _s LEFT JOIN {cells} ON {held} "
        f"GROUP BY _s.{KEY_ID}, {SESSION} HAVING count(_cell_key) > 0 ORDER BY {BUCKET}"
    )
    return query, parameters


def sessions_near(view: View, sources: Sequence[TableSource], cells: str) -> str:
    """The bounds of the sessions that the rows of `cells`, a table of partials, are part of or are about to join."""
    near = f"(SELECT CAST({KEY_ID} AS UUID) AS _cell_key, {FIRST_US} AS _first, {UNTIL_US} AS _until FROM {cells})"
    keys = f"SEMI JOIN {near} ON _r.{KEY_ID} = _cell_key"
    rows, _ = _numbered(view, sources, Selection(by=(), sessions=True), [KEY_ID], keys)
    bounds = f"min({FIRST_US}) AS {FIRST_US}, max({UNTIL_US}) AS {UNTIL_US}"
    sessions = f"(SELECT {KEY_ID}, {bounds} FROM ({rows}) GROUP BY {KEY_ID}, {SESSION}) AS _s"
    return (
        f"SELECT _s.* FROM {sessions} "
        f"SEMI JOIN {near} ON _s.{KEY_ID} = _cell_key AND {FIRST_US} <= _until AND _first <= {UNTIL_US}"
    )


def changed(view: View, sources: Sequence[TableSource], selection: Selection) -> tuple[str, list[Any]]:
    """The result of `fold` for all keys, of the rows in SPANS; the key id follows the bucket."""
    id, bucket = f"CAST(_r.{KEY_ID} AS VARCHAR)", _bucket(selection)
    keys = [f"any_value({duckdb_name(key.name)}) AS {duckdb_name(key.name)}" for key in view.keys]
    selected = [f"{bucket} AS {BUCKET}", f"{id} AS {KEY_ID}", *keys, *counted(*COUNTED)]
    selected += [fold_column(name, part) for name, part in shown_partials(view)]
    spans = f"(SELECT CAST({KEY_ID} AS UUID) AS _span_key, {FROM}, {TO} FROM {SPANS})"
    within = f"JOIN {spans} ON _r.{KEY_ID} = _span_key AND {PANE} >= {FROM} AND {PANE} < {TO}"
    query, parameters = _select(view, sources, selection, selected, within)
    groups = f"_r.{KEY_ID}" if selection.bucket_ms is None else f"{bucket}, _r.{KEY_ID}"
    return f"{query} GROUP BY {groups} ORDER BY {BUCKET}", parameters


def _is_folded(view: View, sources: Sequence[TableSource], selection: Selection) -> bool:
    """Return whether each row of the source is a row of the result: one source holds a (key, pane) once."""
    pane = view.window.pane_ms if view.window else None
    finest = selection.by == tuple(key.name for key in view.keys) and selection.bucket_ms == pane
    return finest and len(sources) == 1 and selection.origin_ms == 0 and selection.calendar is None


def rows_of(
    view: View, sources: Sequence[TableSource], selection: Selection, *, with_id: bool = False
) -> tuple[str, list[Any]]:
    """The rows that `fold` would fold, with the columns that it would give; pane for bucket.

    `with_id`: the key id, as 16 bytes, precedes them.
    """
    parameters: list[Any] = []
    conditions = _conditions(view, selection, parameters)
    id = f"CAST({KEY_ID} AS BLOB) AS {KEY_ID}, " if with_id else ""
    counts = ", ".join(map(duckdb_name, [PANE, *selection.by, EVENTS, CORRECTIONS]))
    # Without a subquery around the tables, since planning that takes longer than reading the rows of a key.
    queries = [
        f"SELECT {id}{counts}, {table.batch_events}, {table.read(shown_partials(view))} FROM {table.name}"
        + _where([*table.conditions, *conditions])
        for table in _tables(view, sources, selection)
    ]
    return " UNION ALL ".join(queries), parameters


def all_rows(view: View, sources: Sequence[TableSource]) -> str:
    """All rows of a version, each with its key id."""
    pane_ms = view.window.pane_ms if view.window else None
    every = Selection(by=tuple(key.name for key in view.keys), bucket_ms=pane_ms)
    return rows_of(view, sources, every, with_id=True)[0]


def step_rows(view: View, partials: str) -> str:
    """The partials of a step, as rows of its version."""
    return all_rows(view, [TableSource(f"(SELECT {stored_columns(view)} FROM {partials})", batch=False)])


def few(view: View, sources: Sequence[TableSource], selection: Selection, most: int) -> tuple[str, list[Any]]:
    """The rows, at most so many."""
    query, parameters = rows_of(view, sources, selection)
    return f"{query} LIMIT {most}", parameters


def count_groups(
    view: View, sources: Sequence[TableSource], selection: Selection, most: int
) -> tuple[tuple[str, list[Any]], tuple[str, list[Any]]]:
    """A query that counts the selected rows, up to `most` + 1, and one that counts the rows of their fold."""
    query, parameters = _select(
        view, sources, selection, [f"{_bucket(selection)} AS {BUCKET}", *map(duckdb_name, selection.by)]
    )
    rows = f"SELECT count(*) FROM ({query} LIMIT {most + 1})", parameters
    if selection.sessions:
        sessions, of_sessions = _fold_sessions(view, sources, selection, ordered=False)
        return rows, (f"SELECT count(*) FROM ({sessions})", of_sessions)
    groups = ", ".join([BUCKET, *map(duckdb_name, selection.by)])
    return rows, (f"SELECT count(*) FROM (SELECT DISTINCT {groups} FROM ({query}))", parameters)


def nth_bucket(view: View, sources: Sequence[TableSource], selection: Selection, n: int) -> tuple[str, list[Any]]:
    """The bucket that the n-th selected row lies in, by pane; no row if there are fewer."""
    query, parameters = _select(view, sources, selection, [f"{_bucket(selection)} AS {BUCKET}"])
    return f"{query} ORDER BY {PANE}{' DESC' if selection.newest_first else ''} LIMIT 1 OFFSET {n - 1}", parameters


def _bucket(selection: Selection) -> str:
    if selection.bucket_ms is None:
        return f"CAST({int(selection.origin_ms)} AS BIGINT)"
    if selection.calendar:
        return f"({PANE} - ({PANE} - {FIRST}) % {int(selection.step_ms)})" if selection.step_ms else FIRST
    size, origin = int(selection.bucket_ms), int(selection.origin_ms)
    # The remainder is made positive: % takes the sign of the dividend, and panes may lie before the origin.
    return f"({PANE} - (({PANE} - {origin}) % {size} + {size}) % {size})"


def _bucket_near(selection: Selection) -> str:
    """The bucket of a row, to be compared with that of the last row of the page before."""
    if selection.calendar is None or selection.after is None:
        return _bucket(selection)
    last = int(selection.after[0])
    if selection.newest_first:
        return f"CASE WHEN {PANE} < {last} THEN {last - 1} ELSE {last} END"
    return f"CASE WHEN {PANE} < {selection.end_of(last)} THEN {last} ELSE {last + 1} END"


def _select(
    view: View, sources: Sequence[TableSource], selection: Selection, selected: list[str], within: str = ""
) -> tuple[str, list[Any]]:
    parameters: list[Any] = []
    conditions = _conditions(view, selection, parameters)
    fixed, partials = ", ".join([*fixed_columns(view), EVENTS, CORRECTIONS]), partials_of(view)
    rows = " UNION ALL ".join(
        f"SELECT {fixed}, {table.batch_events}, {table.read(partials)} FROM {table.name}{_where(table.conditions)}"
        for table in _tables(view, sources, selection)
    )
    joined = f" JOIN {_windows(selection.windows, parameters)}" if selection.calendar else ""
    return f"SELECT {', '.join(selected)} FROM ({rows}) AS _r {within}{joined}{_where(conditions)}", parameters


def _windows(windows: Sequence[tuple[int, int]], parameters: list[Any]) -> str:
    """A table that gives each pane its window, to join: by the hash of its day, since windows differ in length."""
    starts, ends = (_parameter([window[at] for window in windows], parameters) for at in (0, 1))
    bounds = f"SELECT unnest(CAST({starts} AS BIGINT[])) AS {FIRST}, unnest(CAST({ends} AS BIGINT[])) AS {END}"
    days = f"unnest(range({_day_of(FIRST)}, {END}, {DAY_MS})) AS {DAY}"
    return (
        f"(SELECT {FIRST}, {END}, {days} FROM ({bounds})) "
        f"ON {_day_of(PANE)} = {DAY} AND {PANE} >= {FIRST} AND {PANE} < {END}"
    )


def _day_of(time: str) -> str:
    return f"({time} - ({time} % {DAY_MS} + {DAY_MS}) % {DAY_MS})"


def days_of(view: View, sources: Sequence[TableSource], selection: Selection) -> tuple[str, list[Any]]:
    """A query for the UTC days that hold panes of a selection, ascending."""
    every = replace(selection, after=None, calendar=None, bucket_ms=None)
    query, parameters = _select(view, sources, every, [f"{_day_of(PANE)} AS {DAY}"])
    return f"SELECT DISTINCT {DAY} FROM ({query}) ORDER BY {DAY}", parameters


@dataclass(frozen=True)
class _Table:
    """A table to read from, which of its rows, and the expression for how many of a row's events are batch events."""

    name: str
    conditions: tuple[str, ...]
    batch_events: str
    complete: bool = True

    def read(self, partials: Iterable[tuple[str, PartialColumn]]) -> str:
        """SQL for these columns of its rows."""
        return ", ".join(read_column(name, part, complete=self.complete) for name, part in partials)


def _tables(view: View, sources: Sequence[TableSource], selection: Selection) -> list[_Table]:
    none, all_of_them = f"CAST(0 AS BIGINT) AS {BATCH_EVENTS}", f"{EVENTS} AS {BATCH_EVENTS}"
    tables = [_Table(source.name, (), none) for source in sources if not source.batch]
    batch = [source for source in sources if source.batch]
    parts = parts_of(view, selection) if batch else []
    return tables + [
        _Table(f"{source.name}.{part.table}", part.conditions, all_of_them, source.complete)
        for source in batch
        for part in parts
    ]


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _conditions(view: View, selection: Selection, parameters: list[Any]) -> list[str]:
    types = {key.name: key.expression.type for key in view.keys}
    conditions = []
    start, end = selection.panes
    if start is not None:
        conditions.append(f"{PANE} >= {_parameter(int(start), parameters)}")
    if end is not None:
        conditions.append(f"{PANE} < {_parameter(int(end), parameters)}")
    if selection.where:
        by_id = _by_id(view, selection.where, parameters)
        conditions.append(by_id or _by_columns(selection.where, types, parameters))
    if selection.after is not None and not selection.sessions:
        if selection.bucket_ms is not None:
            last = int(selection.after[0])
            conditions.append(f"{PANE} < {selection.end_of(last)}" if selection.newest_first else f"{PANE} >= {last}")
        conditions.append(_behind(selection, _bucket_near(selection), types, parameters))
    return conditions


def _by_id(view: View, alternatives: Sequence[Mapping[str, Value]], parameters: list[Any]) -> str | None:
    """The keys by their ids, where all are known: batch tables are sorted by them, so that little is read."""
    ids = [key_id_of(view, alternative) for alternative in alternatives]
    if None in ids:
        return None
    if len(ids) == 1:  # as a parameter: one statement, parsed once, finds any key
        return f"{KEY_ID} = CAST({_parameter(ids[0], parameters)} AS UUID)"
    if len(ids) > FEW_IDS:  # a join, of one statement for any number of ids: a third of the time of so many literals
        return f"{KEY_ID} IN (SELECT unnest(CAST({_parameter(ids, parameters)} AS UUID[])))"
    casts = [f"CAST('{id}' AS UUID)" for id in ids]
    return f"{KEY_ID} IN ({', '.join(casts)})"


def _parameter(value: Any, parameters: list[Any]) -> str:
    """Adds a parameter. By number, since a condition may be repeated for each table."""
    parameters.append(value)
    return f"${len(parameters)}"


def _by_columns(alternatives: Sequence[Mapping[str, Value]], types: Mapping[str, Type], parameters: list[Any]) -> str:
    return f"({' OR '.join(_equal(alternative, types, parameters) for alternative in alternatives)})"


def _equal(alternative: Mapping[str, Value], types: Mapping[str, Type], parameters: list[Any]) -> str:
    terms = []
    for name, value in alternative.items():
        if value is None:
            terms.append(f"{duckdb_name(name)} IS NULL")
        else:
            terms.append(f"{duckdb_name(name)} = CAST({_parameter(value, parameters)} AS {duckdb_type(types[name])})")
    return f"({' AND '.join(terms) or 'true'})"


def _behind(selection: Selection, bucket: str, types: Mapping[str, Type], parameters: list[Any]) -> str:
    """Rows after the last one of the page before, in an order that puts NULL first."""
    assert selection.after is not None, "only asked for pages after the first"
    sign = "-" if selection.newest_first else ""
    left, right = [f"{sign}{bucket}"], [f"{sign}({int(selection.after[0])})"]
    for name, value in zip(selection.by, selection.after[1:], strict=True):
        stand_in = STAND_INS.get(types[name].name, "0")
        left += [f"({duckdb_name(name)} IS NOT NULL)", f"coalesce({duckdb_name(name)}, {stand_in})"]
        if value is None:
            right += ["false", stand_in]
        else:
            right += ["true", f"CAST({_parameter(value, parameters)} AS {duckdb_type(types[name])})"]
    return f"({', '.join(left)}) > ({', '.join(right)})"
