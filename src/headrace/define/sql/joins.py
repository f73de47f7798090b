"""Joins to tables in SQL: JOIN … ON, IN (SELECT …) and EXISTS (SELECT …); how they are read, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.define.derived_rows import DerivedRows, RowScope
from headrace.define.enrich import joined_entries, key_expression, refuse_table, with_join
from headrace.define.expression.check import check, check_condition
from headrace.define.model import Stream, Table
from headrace.define.relation import JoinKind
from headrace.define.sql.later import instead_of_comma, refuse_stream_join, time_before
from headrace.define.sql.query_tree import JoinItem
from headrace.errors import DefinitionError, did_you_mean
from headrace.language.source_text import SourceText, Token
from headrace.language.syntax import Call, Logic, Name, Node, Operation, TableQuery, walk
from headrace.types import BOOLEAN, TIMESTAMP, Expression

if TYPE_CHECKING:
    from headrace.define.sql.from_clause import FromReader

NOW = ("proctime", "now", "current_timestamp", "localtimestamp")  # FOR SYSTEM_TIME AS OF these: as at the commit
_FORM = "JOIN users u ON c.user_id = u.id"
_REFUSED = {
    "RIGHT": ("RIGHT JOIN would need a row of each key that no event has", "write LEFT JOIN, with the stream first"),
    "FULL": ("FULL JOIN would need a row of each key that no event has", "write LEFT JOIN, with the stream first"),
    "NATURAL": ("NATURAL JOIN is not supported", f"write {_FORM}"),
    "CROSS": ("CROSS JOIN to a table would make a row for each of its keys", f"write {_FORM}"),
}


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
            item = item or JoinItem(at, name, "inner")
            raise refuse_stream_join(self.source, item, times=times | {stream.time_column.lower()}, where=self.where)
        spellings = {table.name.lower(): table.name for table in self.tables.values()}
        fix = did_you_mean(name, spellings.values())
        declare = "only tables are joined: declare it with CREATE TABLE … PRIMARY KEY; CREATE VIEW joins views"
        raise self.source.error(at, f"table '{name}' does not exist", fix=fix or declare)


# Reading


def read_join(reader: FromReader) -> JoinItem:
    """[INNER | LEFT [OUTER | SEMI | ANTI]] JOIN t [FOR SYSTEM_TIME AS OF x] [[AS] u] ON …"""
    token = reader.next
    if token.text == ",":
        raise instead_of_comma(reader)
    refusal = _REFUSED.get(token.upper)
    if refusal:
        raise reader.error(token.start, refusal[0], fix=refusal[1])
    kind: JoinKind = "inner"
    as_of_join = reader.accept("ASOF")
    if reader.accept("LEFT"):
        kind = "left"
        reader.accept("OUTER")
    else:
        reader.accept("INNER")
    if reader.accept("SEMI"):
        kind = "semi"
    elif reader.accept("ANTI"):
        kind = "anti"
    reader.expect("JOIN", "the kind of the join")
    if reader.sees_symbol("("):
        raise reader.error(
            reader.next.start, "a query cannot be joined", fix=f"join a table: {_FORM}, and filter with AND or WHERE"
        )
    name = reader.expect_name("a table")
    as_of = _read_as_of(reader)
    alias, columns = reader.read_alias("the table")
    if columns:
        raise reader.error(name.start, "the columns of a joined table cannot be renamed here", fix="rename in SELECT")
    as_of = as_of or _read_as_of(reader)
    item = JoinItem(name.start, name.text, kind, alias, as_of, name_end=name.end)
    if as_of_join:
        raise _refuse_as_of_join(reader, token, item)
    if reader.sees("WITHIN"):  # of ksqlDB, for joins of streams
        within = reader.index
        reader.take()
        if reader.sees_symbol("("):
            reader.skip_parentheses()
        else:
            reader.read_duration()
        if reader.accept("GRACE", "PERIOD"):
            reader.read_duration()
        item = replace(item, left_out=(reader.span_since(within),))
    if reader.accept("USING"):
        return replace(item, using=reader.names_in_parentheses("USING"))
    if not reader.accept("ON"):
        raise reader.unexpected(f"ON and the primary key, as in {_FORM}")
    return replace(item, on=reader.expression())


def _refuse_as_of_join(reader: FromReader, token: Token, item: JoinItem) -> DefinitionError:
    """ASOF JOIN quotes q MATCH_CONDITION (t.ts >= q.ts) ON …, and with the condition in ON."""
    left_out, matching = [(token.start, token.end)], None
    if reader.sees("MATCH_CONDITION"):
        at = reader.index
        reader.take()
        matching = reader.expression()
        left_out.append(reader.span_since(at))
    if item.alias:
        left_out.append((item.name_end, reader.tokens[reader.index - 1].end if matching is None else left_out[-1][0]))
    if reader.accept("USING"):
        item = replace(item, using=reader.names_in_parentheses("USING"))
    elif reader.accept("ON"):
        item = replace(item, on=reader.expression())
    time = time_before(matching or item.on, item.alias or item.name)
    item = replace(item, left_out=tuple(left_out))
    return refuse_stream_join(reader.source, item, as_of=time or "…")


def _read_as_of(reader: FromReader) -> Node | None:
    if not reader.accept("FOR"):
        return None
    if not (reader.accept("SYSTEM_TIME") or reader.accept("SYSTEM", "TIME")):
        raise reader.unexpected("SYSTEM_TIME AS OF after FOR")
    reader.expect("AS", "SYSTEM_TIME")
    reader.expect("OF", "SYSTEM_TIME AS")
    return reader.operand()


def read_in_query(reader: FromReader, operand: Node | None, negated: bool, at: int) -> Node:
    """The SELECT of IN or EXISTS, and the parenthesis behind it."""
    reader.take()
    column: str | None = None
    if operand is None:
        reader.expression()
    else:
        selected = reader.expression()
        if not isinstance(selected, Name):
            raise reader.error(selected.at, "IN (SELECT …) selects one column, the primary key of a table")
        column = selected.name
    reader.expect("FROM", "the column" if operand else "SELECT 1")
    name = reader.expect_name("a table")
    alias, _ = reader.read_alias("the table")
    where = reader.expression() if reader.accept("WHERE") else None
    reader.expect_symbol(")", "the query")
    return TableQuery(at, operand, name.text, name.start, alias, column, where, negated)


# Meaning


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
        joined = joined.where(Expression(f"{operand.sql} IS NOT NULL", BOOLEAN))
    return joined


def conjuncts(node: Node | None) -> tuple[Node, ...]:
    """The conditions that AND connects."""
    if node is None:
        return ()
    return node.args if isinstance(node, Logic) and node.op == "AND" else (node,)


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
