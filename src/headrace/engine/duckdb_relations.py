"""The rows of a relation as DuckDB makes them in the fused lane: a query over a table with events of a base stream.

Where DuckDB would make other rows than Spark, DuckDB does not run the relation, or the query fails: then Spark makes
the rows of that commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from itertools import takewhile

from headrace.define.model import ARRIVED, Field, Stream, View
from headrace.define.relation import (
    PLACE,
    Branch,
    Explode,
    Filter,
    Join,
    Map,
    Project,
    Relation,
    RowStep,
    SampleRows,
    types_after,
)
from headrace.define.relation_rewrites import composed, is_simple, term_of
from headrace.define.sampling import duckdb_condition
from headrace.define.table_parts import DELETED
from headrace.engine.duckdb_terms import duckdb_name, duckdb_type
from headrace.engine.duckdb_values import limits_of
from headrace.engine.duckdb_views import duckdb_expression, duckdb_view, parts_of
from headrace.errors import DefinitionError
from headrace.language.terms import Expression
from headrace.language.user_functions import OUTCOME
from headrace.types import STRING, TIMESTAMP, Type

COMMIT, POSITION, TABLES = "_commit", "_position", "_tables"  # columns of the lake
VALUES = "_values"  # the array or map that is exploded
REASON = "_reason"  # why a function failed for a row, or a join left it out
KIND = "_kind"  # the reason without its values
CALLED = "_called"  # what a function gave: a value or an error
PIN, FILL, AS_OF = "_pin", "_fill", "_as_of"  # of a row: versions of a table, and the time in question
BEGINS, ENDS = "_begins", "_ends"  # a row of a table is the latest of its key in the versions [begins, ends)


@lru_cache(maxsize=1024)  # each commit needs it
def refuse_duckdb(stream: Stream, view: View) -> str | None:
    """Return the part of a view that only Spark computes; None if DuckDB computes all of it."""
    try:
        if view.relation is not None:
            rows_sql(view.relation, stream, (), "events", joins=join_rows)
        duckdb_view(stream, view)
    except DefinitionError as error:
        return error.message
    return None


@dataclass(frozen=True)
class DuckdbRows:
    """Rows in the making: a query, the columns that expressions may name, and those of ours beside them."""

    sql: str
    types: Mapping[str, Type]
    reserved: tuple[str, ...]
    stream: str  # the base stream

    def expression(self, expression: Expression) -> str:
        """DuckDB's SQL of an expression over these rows. Raises DefinitionError if only Spark computes it."""
        return duckdb_expression(expression, {**self.types, ARRIVED: TIMESTAMP})

    def select(self, columns: Mapping[str, str], types: Mapping[str, Type]) -> DuckdbRows:
        """Rows of these columns, each with its SQL, and of those of ours that are not among them."""
        ours = {name: duckdb_name(name) for name in self.reserved}
        selected = ", ".join(f"{sql} AS {duckdb_name(name)}" for name, sql in {**ours, **columns}.items())
        return replace(self, sql=f"SELECT {selected} FROM ({self.sql})", types=types)

    def where(self, condition: str) -> DuckdbRows:
        """Those of the rows for which a condition is true."""
        return replace(self, sql=f"SELECT * FROM ({self.sql}) WHERE {condition}")

    @property
    def visible(self) -> dict[str, str]:
        """The columns that expressions may name, as `select` takes them."""
        return {name: duckdb_name(name) for name in self.types}


JoinRows = Callable[[DuckdbRows, Join], DuckdbRows]


def refuse_join(rows: DuckdbRows, step: Join) -> DuckdbRows:
    """Where the rows of tables are not at hand."""
    raise DefinitionError(f"only Spark computes the join to table '{step.table}'")


def join_rows(rows: DuckdbRows, step: Join) -> DuckdbRows:
    """Return the rows after a join to what `side_name` names: the rows of the table at the pin of all of them."""
    if step.log.relation is not None and step.log.relation.tables:
        raise DefinitionError(f"only Spark computes joins to table '{step.table}', whose own SELECT has a join")
    changes_sql(step, "changes")  # the table has to be kept up to date, too
    return finish_join(rows, join_sql(keyed_sql(rows, step), step, side_name(step)), step)


def keyed_sql(rows: DuckdbRows, step: Join, versions: Mapping[str, str] | None = None) -> str:
    """Return a query for the rows with what `join_sql` compares. `versions` is SQL for the columns PIN and FILL."""
    compared = {f"_key_{at}": rows.expression(of) for at, (of, _) in enumerate(step.keys)}
    if step.as_of is not None:
        compared[AS_OF] = f"epoch_us({rows.expression(step.as_of)})"
    return rows.select({**rows.visible, **compared, **(versions or {})}, rows.types).sql


def join_sql(left: str, step: Join, side: str, versions: Sequence[str] = ()) -> str:
    """Return a query for rows of `keyed_sql` with the columns of a table, and `_matched`: whether it has their key.

    `side` has the rows of the table at the pin of all rows: one for a key at most. With `versions`, columns of the
    rows, it has those of several versions, and the first of `versions` in which the table has the key counts; rows
    without a match are kept. With `as_of`, `side` has a row for each time of a change, with those that delete the
    row: the last one that is not after the time in question counts.
    """
    sides = [_Side(step, f"_side{at}", version) for at, version in enumerate(versions or [None])]
    how = "JOIN" if step.kind in ("inner", "semi") and not versions else "LEFT JOIN"
    source = "_rows" if step.as_of is not None else f"({left})"
    joins = " ".join(each.join(how, side) for each in sides)
    columns = [
        f"{_met_first(sides, f'_column_{at}')} AS {duckdb_name(name)}" for at, (name, _, _) in enumerate(step.columns)
    ]
    selected = ", ".join(["_row.*", *columns, f"{' OR '.join(each.matched for each in sides)} AS _matched"])
    query = f"SELECT {selected} FROM {source} AS _row {joins}"
    return f"WITH _rows AS MATERIALIZED ({left}) {query}" if step.as_of is not None else query


@dataclass(frozen=True)
class _Side:
    """The rows of a table that rows are compared with, in one version of theirs or at the pin of all."""

    step: Join
    alias: str
    version: str | None

    @property
    def matched(self) -> str:
        """SQL for whether a row has met one."""
        if self.step.as_of is not None:
            return f"coalesce(NOT {self.alias}.{DELETED}, false)"
        return f"{self.alias}._of_0 IS NOT NULL"

    def join(self, how: str, side: str) -> str:
        """SQL after FROM."""
        if self.step.as_of is None:
            return f"{how} {side} AS {self.alias} ON {self._same(self.alias)}{self._in_version(self.alias)}"
        # An ASOF join sorts both sides: only the changes of keys that the rows have are sorted.
        side_rows = f"SELECT * FROM {side} AS _side SEMI JOIN _rows AS _row ON {self._same('_side')}"
        same = ""
        if self.version is not None:
            keys = ", ".join(f"_key_{at}" for at in range(len(self.step.keys)))
            side_rows = (
                f"SELECT _row.{self.version} AS _version, _side.* FROM (SELECT DISTINCT {keys}, {self.version} "
                f"FROM _rows) AS _row JOIN {side} AS _side ON {self._same('_side')}{self._in_version('_side')}"
            )
            same = f" AND _row.{self.version} = {self.alias}._version"
        in_time = f"_row.{AS_OF} >= {self.alias}._of_{len(self.step.keys)}"
        return f"ASOF {how} ({side_rows}) AS {self.alias} ON {self._same(self.alias)}{same} AND {in_time}"

    def _same(self, alias: str) -> str:
        return " AND ".join(f"_row._key_{at} = {alias}._of_{at}" for at in range(len(self.step.keys)))

    def _in_version(self, alias: str) -> str:
        version = f"_row.{self.version}"
        return f" AND {alias}.{BEGINS} <= {version} AND {version} < {alias}.{ENDS}" if self.version else ""


def _met_first(sides: Sequence[_Side], column: str) -> str:
    """SQL for a column of the first side that a row has met."""
    *others, last = sides
    whens = " ".join(f"WHEN {each.matched} THEN {each.alias}.{column}" for each in others)
    value = f"{last.alias}.{column}"
    return f"CASE {whens} ELSE {value} END" if others else value


def finish_join(rows: DuckdbRows, sql: str, step: Join) -> DuckdbRows:
    """The rows after a join, of a query for rows with the columns of the table and `_matched`: whether it has a row."""
    types = {**rows.types, **{name: of for name, _, of in step.columns}}
    joined = replace(rows, sql=sql, types=types)
    matched = "_matched"
    if step.condition is not None:
        matched = f"_matched AND coalesce({joined.expression(step.condition)}, false)"
    if step.kind == "left":
        nulled = {name: f"CASE WHEN {matched} THEN {duckdb_name(name)} END" for name, _, _ in step.columns}
        return joined.select({**rows.visible, **nulled}, types)
    kept = joined.where(f"NOT ({matched})" if step.kind == "anti" else matched)
    # A semi or anti join only chooses rows: the columns of the table were for its condition.
    return kept.select(joined.visible, types) if step.kind == "inner" else kept.select(rows.visible, rows.types)


def side_name(step: Join) -> str:
    """The name of what a join reads of a table. Joins that read the same of it have one name."""
    keys = [(column, str(of.type)) for of, column in step.keys]
    columns = [(column, str(of)) for _, column, of in step.columns]
    whole = (step.log, keys, columns, *(["history"] if step.as_of else []))
    return f"_table_{sha256(repr(whole).encode()).hexdigest()[:24]}"


def changes_sql(step: Join, table: str, *, joins: JoinRows = refuse_join) -> str:
    """A query for the changes of a table in events of its log: the columns that a side has, COMMIT and `_order`.

    Raises DefinitionError if only Spark makes them.
    """
    log = step.log
    rows, deleted, place = table, f"coalesce({duckdb_name(DELETED)}, false)", ""
    if log.relation is not None:
        pins = [TABLES] if log.relation.tables else []
        reserved = (COMMIT, ARRIVED, POSITION, *pins, *([PLACE] if log.relation.repeats else []))
        fields = tuple(Field(name, of) for name, of in log.relation.reads_of(log.stream))
        rows_query = rows_sql(log.relation, Stream(log.stream, fields), reserved, table, joins=joins)
        rows, deleted = f"({rows_query})", "false"
        place = f", '{PLACE}': {PLACE}" if log.relation.repeats else ""
    time = f"epoch_us({duckdb_name(log.event_time or ARRIVED)})"
    keys = [
        f"CAST({duckdb_name(column)} AS {duckdb_type(of.type)}) AS _of_{at}"
        for at, (of, column) in enumerate(step.keys)
    ]
    keys += [f"{time} AS _of_{len(step.keys)}"] if step.as_of else []  # one row for each time of a key
    columns = [f"{duckdb_name(column)} AS _column_{at}" for at, (_, column, _) in enumerate(step.columns)]
    order = f"{{'_time': {time}, '{POSITION}': {POSITION}{place}}} AS _order"
    return f"SELECT {', '.join([*keys, *columns, f'{deleted} AS {DELETED}', COMMIT, order])} FROM {rows}"


def rows_sql(
    relation: Relation,
    stream: Stream,
    reserved: Sequence[str],
    table: str,
    *,
    joins: JoinRows = refuse_join,
    fewer_steps: bool = False,
) -> str:
    """A query for the rows that a relation makes of the events of a base stream in this table.

    They have the fields of the relation and `reserved`, columns of ours; with `PLACE` among these, the place of a row
    among those of the same event. Raises DefinitionError if only Spark makes them.

    With `fewer_steps` it is quicker, takes events within their `limits`, and may fail for a row that an earlier step
    leaves out.
    """
    parts = []
    for number, branch in enumerate(relation.branches_of(stream.name)):
        rows = _first(branch, number, tuple(reserved), table)
        steps = branch.steps
        if fewer_steps:
            steps = composed(branch).steps
            for step in _first_filters(steps):
                rows = rows.where(_truth(step, rows, within_limits=True))
            steps = steps[len(_first_filters(steps)) :]
        parts.append(_after(rows, steps, relation, joins))
    return " UNION ALL ".join(parts)


def limits(relation: Relation, stream: Stream) -> dict[str, int]:
    """Fields of events whose magnitude is limited: the query with fewer steps is right if none is larger."""
    by_field: dict[str, int] = {}
    for branch in relation.branches_of(stream.name):
        for step in _first_filters(composed(branch).steps):
            for name, limit in limits_of(term_of(step.condition, dict(branch.reads))):
                by_field[name] = min(limit, by_field.get(name, limit))
    return by_field


def _first_filters(steps: Sequence[RowStep]) -> list[Filter]:
    """The filters before all other steps: their conditions are over the fields of events."""
    return list(takewhile(lambda step: isinstance(step, Filter), steps))  # type: ignore[arg-type]


def failures_sql(
    relation: Relation,
    stream: Stream,
    reserved: Sequence[str],
    table: str,
    *,
    joins: JoinRows = refuse_join,
    missing: Callable[[DuckdbRows, Join], DuckdbRows | None] = refuse_join,
) -> str | None:
    """A query for the rows that a function failed for, or that have no row in a table: `reserved`, `REASON`, `KIND`.

    `missing` gives the latter. `KIND` is a reason without its values; NULL if that is to be taken from the reason.
    None: there is neither.
    """
    parts = []
    for number, branch in enumerate(relation.branches_of(stream.name)):
        rows = _first(branch, number, tuple(reserved), table)
        last = max((at for at, step in enumerate(branch.steps) if isinstance(step, Map | Join)), default=-1)
        for step in branch.steps[: last + 1]:
            if isinstance(step, Map):
                reason = {REASON: duckdb_name(step.columns[0][0]), KIND: "NULL"}
                parts.append(map_rows(rows, step, failed=True).select(reason, {}).sql)
            elif isinstance(step, Join) and (left_out := missing(rows, step)) is not None:
                parts.append(left_out.sql)
            rows = joins(rows, step) if isinstance(step, Join) else _step(rows, step)
    return " UNION ALL ".join(parts) or None


def calls_sql(relation: Relation, stream: Stream, table: str) -> Iterator[tuple[Map, str]]:
    """Each call of a function, with a query for its arguments, named a0, a1, …"""
    for rows, step in _calls(relation, stream, (), table):
        columns = {f"a{at}": rows.expression(of) for at, of in enumerate(step.arguments)}
        yield step, rows.select(columns, {}).sql


def _calls(
    relation: Relation, stream: Stream, reserved: tuple[str, ...], table: str
) -> Iterator[tuple[DuckdbRows, Map]]:
    """Each call of a function, with the rows that it is called for."""
    for number, branch in enumerate(relation.branches_of(stream.name)):
        rows = _first(branch, number, reserved, table)
        last = max((at for at, step in enumerate(branch.steps) if isinstance(step, Map)), default=-1)
        for step in branch.steps[: last + 1]:
            if isinstance(step, Map):
                yield rows, step
            rows = refuse_join(rows, step) if isinstance(step, Join) else _step(rows, step)


def _first(branch: Branch, number: int, reserved: tuple[str, ...], table: str) -> DuckdbRows:
    """The events of the base stream."""
    ours = [f"[{number}] AS {name}" if name == PLACE else name for name in reserved]
    columns = ", ".join([*ours, *(duckdb_name(name) for name, _ in branch.reads)])
    return DuckdbRows(f"SELECT {columns} FROM {table}", dict(branch.reads), reserved, branch.stream)


def _after(rows: DuckdbRows, steps: Sequence[RowStep], relation: Relation, joins: JoinRows) -> str:
    """The rows of a branch after its steps."""
    for step in steps:
        rows = joins(rows, step) if isinstance(step, Join) else _step(rows, step)
    # All branches have the columns in the same order.
    return rows.select({name: duckdb_name(name) for name, _ in relation.fields}, dict(relation.fields)).sql


def _step(rows: DuckdbRows, step: Filter | Project | Explode | Map | SampleRows) -> DuckdbRows:
    match step:
        case Filter():
            return rows.where(_truth(step, rows))
        case Project():
            columns = {name: rows.expression(of) for name, of in step.columns}
            return rows.select(columns, {name: of.type for name, of in step.columns})
        case Explode():
            return _explode(rows, step)
        case Map():
            return map_rows(rows, step)
        case SampleRows():
            return rows.where(duckdb_condition(step, rows.stream, [rows.expression(key) for key in step.keys]))


def _truth(step: Filter, rows: DuckdbRows, *, within_limits: bool = False) -> str:
    """A condition as DuckDB is quick to check it.

    By default DuckDB chooses the rows for each side of an OR, one row after the other. A comparison of the whole makes
    it compute both sides for all rows, a vector at once: that is quicker if they cost little.
    """
    condition = duckdb_expression(step.condition, {**rows.types, ARRIVED: TIMESTAMP}, within_limits=within_limits)
    term = term_of(step.condition, rows.types)
    has_or = any(part.op == "OR" for part in parts_of(term))
    return f"({condition}) IS NOT DISTINCT FROM true" if has_or and is_simple(term) else condition


def map_rows(rows: DuckdbRows, step: Map, *, failed: bool = False) -> DuckdbRows:
    """The rows with the result of a call, without those that it failed for; with `failed` the latter, and the error."""
    (name, of), arguments = step.columns[0], ", ".join(map(rows.expression, step.arguments))
    called = rows.select({**rows.visible, CALLED: f"{OUTCOME}{step.function}({arguments})"}, rows.types)
    called = called.where(f"{CALLED}.error IS {'NOT ' * failed}NULL")
    part, of = ("error", STRING) if failed else ("value", of)
    return called.select({**rows.visible, name: f"{CALLED}.{part}"}, {**rows.types, name: of})


def _explode(rows: DuckdbRows, step: Explode) -> DuckdbRows:
    """A row for each element; a map is a list of its entries. Spark counts from 0, and NULL has no elements."""
    of, values = step.values.type, rows.expression(step.values)
    columns = {**rows.visible, VALUES: f"map_entries({values})" if of.name == "MAP" else values}
    rows_with_values = rows.select(columns, rows.types)
    values, is_there = VALUES, "true"
    if step.outer:
        is_there = f"coalesce(len({VALUES}) > 0, false)"
        values = f"CASE WHEN {is_there} THEN {VALUES} ELSE [NULL] END"
    columns = {**rows.visible, "_element": f"unnest({values})"}
    if step.position or PLACE in rows.reserved:
        columns["_number"] = f"CAST(generate_subscripts({values}, 1) - 1 AS INTEGER)"
    if step.position:
        columns["_is_there"] = is_there
    exploded = rows_with_values.select(columns, rows.types)
    columns = dict(rows.visible)
    if PLACE in rows.reserved:
        columns[PLACE] = f"list_append({PLACE}, _number)"
    if step.position:
        columns[step.position] = "CASE WHEN _is_there THEN _number END"
    parts = ("_element.key", "_element.value") if of.name == "MAP" else ("_element",)
    for name, part, part_type in zip(step.names, parts, step.types, strict=True):
        columns[name] = f"CAST({part} AS {duckdb_type(part_type)})"
    return exploded.select(columns, types_after(rows.types, step))
