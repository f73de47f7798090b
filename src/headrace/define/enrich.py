"""Builds joins of rows to tables, for SQL and Python alike."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.define.derived_rows import DerivedRows, RowColumn
from headrace.define.model import Table
from headrace.define.relation import Join, JoinKind, TableLog
from headrace.errors import DefinitionError
from headrace.language.coercion import as_decimal, common_type
from headrace.types import Expression, Type


def refuse_table(table: Table) -> DefinitionError | None:
    """Why a table cannot be joined; None if it can."""
    streams = table.relation.streams if table.relation else ()
    if len(streams) > 1:
        return DefinitionError(
            f"table '{table.name}' is made of several streams, and a join needs one number for its version",
            found=", ".join(streams), fix="make it of one stream, or declare it and send its changes",
        )  # fmt: skip
    return None


def joined_entries(rows: DerivedRows, table: Table, alias: str | None = None) -> tuple[RowColumn, ...]:
    """The columns of a table beside those of rows: they may be qualified by its name and by the alias."""
    of = tuple(dict.fromkeys(name.lower() for name in (table.name, alias) if name))
    columns = rows.columns_for(field.name for field in table.fields)
    return tuple(
        RowColumn(field.name, column, field.type, of) for field, column in zip(table.fields, columns, strict=True)
    )


def key_expression(table: Table, key: str, value: Expression) -> Expression:
    """The value of a row, cast to the type in which it is compared with a column of the primary key.

    Exact numbers are compared as exact numbers. Nothing else is cast: each engine would do it in its own way.
    """
    key_type = table.types()[key]
    if value.type == key_type:
        return value
    common = common_type([value.type, key_type])
    if (
        common is None
        or not _is_exact(value.type)
        or not _is_exact(key_type)
        or not _holds(common, value.type, key_type)
    ):
        raise DefinitionError(
            f"{value.sql} cannot be compared with {table.name}.{key}", found=str(value.type), expected=str(key_type),
            fix=f"cast it, as in CAST({value.sql} AS {key_type})",
        )  # fmt: skip
    return Expression(f"CAST({value.sql} AS {common})", common) if value.type != common else value


def _is_exact(of: Type) -> bool:
    return of.is_integer or of.name == "DECIMAL"


def _holds(common: Type, *types: Type) -> bool:
    """Whether a DECIMAL has all digits of these: beyond 38 some would be cut off."""
    if common.is_integer:
        return True
    exact = [as_decimal(each) for each in types]
    whole = max(each.precision - each.scale for each in exact)
    return common.scale >= max(each.scale for each in exact) and common.precision - common.scale >= whole


def with_join(
    rows: DerivedRows,
    table: Table,
    kind: JoinKind,
    keys: Mapping[str, Expression],
    entries: tuple[RowColumn, ...],
    as_of: Expression | None = None,
    condition: Expression | None = None,
) -> DerivedRows:
    """The rows after a join; `keys` are by column of the primary key. A semi or anti join adds no columns."""
    types = table.types()
    stream = table.relation.streams[0] if table.relation else table.name
    log = TableLog(stream, tuple((key, types[key]) for key in table.key), table.event_time, table.relation)
    columns = tuple((entry.column, entry.name, entry.type) for entry in entries)
    pairs = tuple((keys[key], key) for key in table.key)
    step = Join(table.name, kind, pairs, log, columns, as_of, condition)
    return rows.then(step, entries if kind in ("inner", "left") else ())
