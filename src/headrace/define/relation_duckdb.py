"""The rows of a relation as DuckDB makes them in the fused lane: a query over a table with events of a base stream.

Where DuckDB would make other rows than Spark, the relation has no DuckDB face, or the query fails: then Spark makes
the rows of that commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from headrace.define.expression.computed import duckdb_name, duckdb_type
from headrace.define.expression.duckdb_face import duckdb_face, face_of
from headrace.define.model import ARRIVED, Stream, View
from headrace.define.own import OUTCOME
from headrace.define.relation import PLACE, Branch, Explode, Filter, Join, Map, Project, Relation, RowStep, Sample
from headrace.define.sample import duckdb_condition
from headrace.errors import DefinitionError
from headrace.types import INT, STRING, TIMESTAMP, Expression, Type

VALUES = "_values"  # the array or map that is exploded
CALLED = "_called"  # what a function gave: a value or an error


@lru_cache(maxsize=1024)  # each commit needs it
def refuse_duckdb(stream: Stream, view: View) -> str | None:
    """Why a view has no DuckDB face: the part of it that only Spark computes; None if it has one."""
    try:
        if view.relation is not None:
            rows_sql(view.relation, stream, (), "events")
        duckdb_face(stream, view)
    except DefinitionError as error:
        return error.message
    return None


@dataclass(frozen=True)
class Rows:
    """Rows in the making: a query, the columns that expressions may name, and those of ours beside them."""

    sql: str
    types: Mapping[str, Type]
    reserved: tuple[str, ...]
    stream: str  # the base stream

    def expression(self, expression: Expression) -> str:
        """DuckDB's SQL of an expression over these rows. Raises DefinitionError if only Spark computes it."""
        return face_of(expression, {**self.types, ARRIVED: TIMESTAMP})

    def select(self, columns: Mapping[str, str], types: Mapping[str, Type]) -> Rows:
        """Rows of these columns, each with its SQL, and of those of ours that are not among them."""
        ours = {name: duckdb_name(name) for name in self.reserved}
        selected = ", ".join(f"{sql} AS {duckdb_name(name)}" for name, sql in {**ours, **columns}.items())
        return replace(self, sql=f"SELECT {selected} FROM ({self.sql})", types=types)

    def where(self, condition: str) -> Rows:
        """Those of the rows for which a condition is true."""
        return replace(self, sql=f"SELECT * FROM ({self.sql}) WHERE {condition}")

    @property
    def visible(self) -> dict[str, str]:
        """The columns that expressions may name, as `select` takes them."""
        return {name: duckdb_name(name) for name in self.types}


def rows_sql(relation: Relation, stream: Stream, reserved: Sequence[str], table: str) -> str:
    """A query for the rows that a relation makes of the events of a base stream in this table.

    They have the fields of the relation and `reserved`, columns of ours; with `PLACE` among these, the place of a row
    among those of the same event. Raises DefinitionError if only Spark makes them.
    """
    branches = relation.branches_of(stream.name)
    return " UNION ALL ".join(
        _branch(relation, branch, number, tuple(reserved), table) for number, branch in enumerate(branches)
    )


def _branch(relation: Relation, branch: Branch, number: int, reserved: tuple[str, ...], table: str) -> str:
    ours = [f"[{number}] AS {name}" if name == PLACE else name for name in reserved]
    columns = ", ".join([*ours, *(duckdb_name(name) for name, _ in branch.reads)])
    rows = Rows(f"SELECT {columns} FROM {table}", dict(branch.reads), reserved, branch.stream)
    for step in branch.steps:
        rows = _step(rows, step)
    # All branches have the columns in the same order.
    return rows.select({name: duckdb_name(name) for name, _ in relation.fields}, dict(relation.fields)).sql


def _step(rows: Rows, step: RowStep) -> Rows:
    match step:
        case Filter():
            return rows.where(rows.expression(step.condition))
        case Project():
            columns = {name: rows.expression(of) for name, of in step.columns}
            return rows.select(columns, {name: of.type for name, of in step.columns})
        case Explode():
            return _explode(rows, step)
        case Map():
            return map_rows(rows, step)
        case Join():
            raise DefinitionError(f"only Spark computes the join to table '{step.table}'")
        case Sample():
            return rows.where(duckdb_condition(step, rows.stream, [rows.expression(key) for key in step.keys]))


def map_rows(rows: Rows, step: Map, *, failed: bool = False) -> Rows:
    """The rows with the result of a call, without those that it failed for; with `failed` the latter, and the error."""
    (name, of), arguments = step.columns[0], ", ".join(map(rows.expression, step.arguments))
    called = rows.select({**rows.visible, CALLED: f"{OUTCOME}{step.function}({arguments})"}, rows.types)
    called = called.where(f"{CALLED}.error IS {'NOT ' * failed}NULL")
    part, of = ("error", STRING) if failed else ("value", of)
    return called.select({**rows.visible, name: f"{CALLED}.{part}"}, {**rows.types, name: of})


def _explode(rows: Rows, step: Explode) -> Rows:
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


def types_after(types: Mapping[str, Type], step: Explode) -> dict[str, Type]:
    """The columns of rows that were exploded: an element has the name of an earlier column instead of it."""
    position = {step.position: INT} if step.position else {}
    return {**types, **position, **dict(zip(step.names, step.types, strict=True))}
