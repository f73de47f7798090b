"""Joins rows to tables: JOIN … ON, IN (SELECT …) and EXISTS (SELECT …)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.define.derived_rows import DerivedRows, RowColumn, RowScope
from headrace.define.model import Stream, Table
from headrace.define.relation import Join, TableLog
from headrace.errors import DefinitionError, did_you_mean
from headrace.language.check import check, check_condition
from headrace.language.coercion import as_decimal, common_type
from headrace.language.source_text import SourceText
from headrace.language.syntax import (
    Call,
    JoinItem,
    JoinKind,
    Logic,
    Name,
    Node,
    Operation,
    TableQuery,
    conjuncts,
    walk,
)
from headrace.language.terms import Expression
from headrace.lazy import later
from headrace.types import TIMESTAMP, Type

unavailable_syntax = later("headrace.language.foreign.unavailable_syntax")  # after a mistake only
NOW = ("proctime", "now", "current_timestamp", "localtimestamp")  # FOR SYSTEM_TIME AS OF these: as at the commit


@dataclass(frozen=True)
class TableScope:
    """The tables and streams that a join may name, by name in lower case."""

    source: SourceText
    tables: Mapping[str, Table]
    streams: Mapping[str, Stream]
    where: Node | None = None  # of the query that joins

    def find(self, name: str, at: int, item: JoinItem | None = None) -> Table:
        """The table of a name, which `item` joins."""
        table = self.tables.get(name.lower())
        if table is not None:
            reason = refuse_table(table)
            if reason is not None:
                raise self.source.error(at, reason.message, found=reason.found, fix=reason.fix)
            return table
        if name.lower() in self.streams:
            stream = self.streams[name.lower()]
            times = {field.name.lower() for field in stream.fields if field.type == TIMESTAMP}
            times.add(stream.time_column.lower())
            item = item or JoinItem(at, name, "inner")
            raise unavailable_syntax.refuse_stream_join(self.source, item, times=times, where=self.where)
        spellings = {table.name.lower(): table.name for table in self.tables.values()}
        fix = did_you_mean(name, spellings.values())
        declare = "only tables are joined: declare it with CREATE TABLE … PRIMARY KEY; CREATE VIEW joins views"
        raise self.source.error(at, f"table '{name}' does not exist", fix=fix or declare)


def apply_join(item: JoinItem, rows: DerivedRows, scope: TableScope) -> DerivedRows:
    """The rows after a JOIN."""
    source = scope.source
    table = scope.find(item.name, item.at, item)
    _check_alias(source, item, rows)
    entries = joined_entries(rows, table, item.alias)
    keys: dict[str, Expression] = {}
    rest: list[Node] = []
    for name in item.using:
        key = _key_named(table, Name(item.at, name))
        if key is None:
            raise source.error(item.at, f"USING names '{name}', which is not of the primary key of '{table.name}'")
        if not any(entry.name.lower() == name.lower() for entry in rows.entries):
            raise source.error(
                item.at, f"USING ({name}) needs a column '{name}' on both sides", found=f"none in {rows.owner}",
                fix=f"write ON and the column to compare, as in ON user_id = {item.alias or table.name}.{key}",
            )  # fmt: skip
        keys[key] = _key(source, rows, table, key, Name(item.at, name))
    for condition in conjuncts(item.on):
        pair = _key_pair(condition, table, item, rows)
        if pair is None or pair[0] in keys:
            rest.append(condition)
        else:
            keys[pair[0]] = _key(source, rows, table, *pair)
    whole = RowScope((*rows.entries, *entries), rows.owner)
    residual = _all(source, rest, whole, "ON")  # first: a name that is ambiguous is told as such
    _check_whole_key(source, item, table, keys)
    as_of = _as_of(source, item, rows, table)
    return with_join(rows, table, item.kind, keys, entries, as_of, residual)


def apply_queries(where: Node | None, rows: DerivedRows, scope: TableScope) -> tuple[DerivedRows, Node | None]:
    """The rows that match the queries in WHERE, and the conditions that are left."""
    rest: list[Node] = []
    for condition in conjuncts(where):
        if isinstance(condition, TableQuery):
            rows = _apply_query(condition, rows, scope)
        else:
            rest.append(condition)
    if where is None or len(rest) == len(conjuncts(where)):
        return rows, where
    return rows, None if not rest else rest[0] if len(rest) == 1 else Logic(where.at, "AND", tuple(rest))


def _apply_query(query: TableQuery, rows: DerivedRows, scope: TableScope) -> DerivedRows:
    source = scope.source
    kind: JoinKind = "anti" if query.negated else "semi"
    if query.operand is None:
        item = JoinItem(query.table_at, query.table, kind, query.alias, on=query.where)
        return apply_join(item, rows, scope)
    table = scope.find(query.table, query.table_at)
    key = _key_named(table, Name(query.table_at, query.column or ""))
    if key is None or len(table.key) > 1:
        raise source.error(
            query.table_at, f"IN (SELECT {query.column} FROM {table.name}) needs the whole primary key",
            found=query.column, expected=", ".join(table.key),
            fix="write EXISTS (SELECT 1 FROM …) with its columns" if len(table.key) > 1 else f"select {table.key[0]}",
        )  # fmt: skip
    operand = _key(source, rows, table, key, query.operand)
    entries = joined_entries(rows, table, query.alias)
    condition = _all(
        source, conjuncts(query.where), RowScope(entries, f"table '{table.name}'", of_events=False), "WHERE"
    )
    joined = with_join(rows, table, kind, {key: operand}, entries, None, condition)
    if query.negated:  # NULL NOT IN (…) is not true
        joined = joined.where(operand.is_present)
    return joined


def _all(source: SourceText, nodes: tuple[Node, ...] | list[Node], scope: RowScope, what: str) -> Expression | None:
    if not nodes:
        return None
    node = nodes[0] if len(nodes) == 1 else Logic(nodes[0].at, "AND", tuple(nodes))
    return check_condition(source, node, scope, what)


def _key_pair(node: Node, table: Table, item: JoinItem, rows: DerivedRows) -> tuple[str, Node] | None:
    """The column of the primary key and the value of the row that a condition compares; None if it does not."""
    if not (isinstance(node, Operation) and node.op == "="):
        return None
    own = {item.name.lower(), (item.alias or item.name).lower()}
    names = {entry.name.lower() for entry in rows.entries}

    def of_table(part: Node) -> bool:
        if not isinstance(part, Name):
            return False
        if part.of is not None:
            return part.of.lower() in own
        known = {field.name.lower() for field in table.fields}
        return part.name.lower() in known and part.name.lower() not in names

    for column, value in (node.args, tuple(reversed(node.args))):
        if of_table(column) and not any(map(of_table, walk(value))):
            assert isinstance(column, Name), "it is a column"
            key = _key_named(table, column)
            if key is not None:
                return key, value
    return None


def _key_named(table: Table, name: Name) -> str | None:
    return next((key for key in table.key if key.lower() == name.name.lower()), None)


def _key(source: SourceText, rows: DerivedRows, table: Table, key: str, node: Node) -> Expression:
    value = check(source, node, rows.scope())
    try:
        return key_expression(table, key, value)
    except DefinitionError as error:
        raise source.error(node.at, error.message, found=error.found, expected=error.expected, fix=error.fix) from None


def _check_alias(source: SourceText, item: JoinItem, rows: DerivedRows) -> None:
    name = item.alias or item.name
    if name.lower() in {entry.of[-1] for entry in rows.entries if entry.of}:
        raise source.error(
            item.at, f"two inputs of FROM are named '{name}'",
            fix=f"give one another alias: {item.name} AS t; in Python join(…, alias=…)",
        )  # fmt: skip


def _check_whole_key(source: SourceText, item: JoinItem, table: Table, keys: Mapping[str, Expression]) -> None:
    missing = [key for key in table.key if key not in keys]
    if missing:
        alias = item.alias or item.name
        raise source.error(
            item.on.at if item.on else item.at,
            f"the join to table '{table.name}' does not compare its whole primary key with =",
            found="nothing" if not keys else ", ".join(keys), expected=", ".join(table.key),
            fix=f"add {' AND '.join(f'… = {alias}.{key}' for key in missing)}: each event then has one row at most",
        )  # fmt: skip


def _as_of(source: SourceText, item: JoinItem, rows: DerivedRows, table: Table) -> Expression | None:
    node = item.as_of
    if node is None or (isinstance(node, Call) and node.name.lower() in NOW):
        return None
    if rows.event_time is None:
        raise source.error(
            node.at, f"FOR SYSTEM_TIME AS OF needs an event time, and {rows.owner} has none",
            fix=f"declare one with WATERMARK FOR, or leave it out: '{table.name}' is then as it was at the commit",
        )  # fmt: skip
    value = check(source, node, rows.scope())
    if value.type != TIMESTAMP:
        raise source.error(
            node.at, "FOR SYSTEM_TIME AS OF takes a time of the event", found=f"{value.sql}, a {value.type}",
            expected="a TIMESTAMP", fix="cast it",
        )  # fmt: skip
    return value


# Steps, for SQL and Python alike


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
    return value.cast(common) if value.type != common else value


def _is_exact(of: Type) -> bool:
    return of.is_integer or of.name == "DECIMAL"


def _holds(common: Type, *types: Type) -> bool:
    """Return True if a DECIMAL has all digits of these: beyond 38 some would be cut off."""
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
