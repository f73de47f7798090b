"""Builds the view of a SELECT over the rows of its FROM: keys, window, columns and their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from headrace.define.answer_shape import ShapeReader, ShapeScope
from headrace.define.definition_rules import check_key
from headrace.define.derived_rows import DerivedRows, RowScope
from headrace.define.model import Column, Key, Order, Stream, Table, View, Window
from headrace.define.relation_rewrites import view_over
from headrace.define.row_builder import NO_TABLES, Inputs, hoist, rows_of_from
from headrace.define.table_joins import apply_queries
from headrace.define.view_columns import contains_aggregate, is_aggregate, make_column
from headrace.define.view_windows import (
    Bound,
    is_bucket,
    is_window_call,
    read_bucket,
    read_window,
    refuse_other_window,
    same_windows,
    whole_window,
    window_bound,
)
from headrace.errors import DefinitionError
from headrace.language.check import Checker, check, check_condition
from headrace.language.identifiers import check_distinct, check_name
from headrace.language.source_text import FollowUpError, Mistakes, each, join, located
from headrace.language.statements.create_view import ViewStatement
from headrace.language.statements.select_rows import is_generator
from headrace.language.syntax import Call, Literal, Name, Node, SelectItem, Star, TableQuery, conjuncts, walk
from headrace.language.terms import Expression, quote
from headrace.language.user_functions import plain
from headrace.lazy import later
from headrace.types import INT

view_refusals = later("headrace.define.view_refusals")  # after a mistake only
ReadWhere = Callable[[ViewStatement, RowScope, ShapeReader], Expression | None]


def build_view(
    select: ViewStatement,
    streams: Mapping[str, Stream],
    tables: Mapping[str, Table] = NO_TABLES,
    *,
    of_table: bool = False,
) -> View:
    """Return the view over its streams, every rule checked; raise all mistakes of the statement at once.

    With `of_table` the stream stands for the rows of a table.
    """
    mistakes = Mistakes(select.mistakes)
    with mistakes.collect():
        stream, scope, where = _read_from(select, streams, tables)
        scope.owner = f"table '{stream.name}'" if of_table else scope.owner
    if len(mistakes.errors) > len(select.mistakes):
        raise join(mistakes.errors)
    select = replace(select, where=where)
    if not (select.mistakes or select.left_out or select.outline.reasons):
        with suppress(DefinitionError):
            view = ViewBuilder(select, stream, scope).view()
            return view_over(view, stream) if stream.relation else view
    rebuilt: View = view_refusals.build_again(select, stream, scope, of_table=of_table)
    return rebuilt


def _read_from(
    select: ViewStatement, streams: Mapping[str, Stream], tables: Mapping[str, Table]
) -> tuple[Stream, RowScope, Node | None]:
    """Return what the view aggregates, its base stream or the rows of FROM as a derived stream; and their names."""
    item, nodes = select.from_clause.input, [item.node for item in select.items]
    stream = streams.get((item.name or "").lower())
    if stream and not _makes_rows(select, nodes):
        return stream, DerivedRows.of(stream, item.alias).scope(), select.where
    inputs = Inputs(select.source, streams, tables=tables).with_queries(select.queries)
    rows = rows_of_from(select.from_clause, replace(inputs, where=select.where))
    rows, where = apply_queries(select.where, rows, inputs.table_scope)
    rows, scope = hoist(select.source, rows, [(each.node, [each.alias or "col"]) for each in select.items])
    if stream is None or rows != DerivedRows.of(stream, item.alias):
        stream = rows.stream(item.name or item.alias or select.name)
    return stream, scope, where


def _makes_rows(select: ViewStatement, nodes: Iterable[Node]) -> bool:
    """Return True if the rows that are aggregated are not just the events of a stream."""
    source = select.from_clause
    if source.steps or source.input.columns or select.queries:
        return True
    parts = [part for node in (*nodes, *conjuncts(select.where)) for part in walk(node)]
    return any(isinstance(part, TableQuery) or is_generator(part) for part in parts)


def _check_where(select: ViewStatement, scope: RowScope, reader: ShapeReader) -> Expression | None:
    return None if select.where is None else check_condition(select.source, select.where, scope, "WHERE")


class ViewBuilder:
    """Makes the view of a statement over the rows of FROM; raises all of its mistakes at once."""

    def __init__(
        self, select: ViewStatement, stream: Stream, scope: RowScope, read_where: ReadWhere | None = None
    ) -> None:
        """`read_where` explains conditions that belong elsewhere."""
        self.select = select
        self.source = select.source
        self.stream = stream
        self.scope = scope
        self.mistakes = Mistakes(select.mistakes)
        self.keys: list[Key] = []
        self.window: Window | None = None
        self.names: dict[str, str] = {}  # of the bounds of the window, by SELECT
        self.groups_are_valid = True
        self.table_window = select.from_clause.input.window
        self._read_where = read_where or _check_where

    def view(self) -> View:
        """The view, over the rows as a stream."""
        self._read_groups()
        columns: dict[int, Column] = {}  # by the place of the item in SELECT
        computed: list[int] = []  # the places of expressions over aggregates and keys
        for place, item in enumerate(self.select.items):
            with self.mistakes.collect():
                if is_aggregate(item.node):
                    columns[place] = make_column(self.source, self.scope, item.node, item.alias)
                elif contains_aggregate(item.node) or not self._is_key(item):
                    computed.append(place)
        window = self.window and replace(
            self.window, start_name=self.names.get("start"), end_name=self.names.get("end")
        )
        reader = self._shape_reader(list(columns.values()), window)
        having, order = self._read_shape(reader, columns, computed)
        where: Expression | None = None
        with self.mistakes.collect():
            where = self._read_where(self.select, self.scope, reader)
        names = [*(key.name for key in self.keys), *self.names.values(), *(output.name for output in reader.outputs)]
        with self.mistakes.collect(), located(self.source, self._repeated_at()):
            check_distinct(names, "the column")
        self.mistakes.check()
        all_columns = reader.scope.columns
        if not all_columns:
            raise self._error(
                self.select.at, f"view '{self.select.name}' has no aggregate", fix="add one: count(*) AS hits"
            )
        return View(
            name=self.select.name,
            streams=(self.stream.name,),
            keys=tuple(self.keys),
            columns=tuple(all_columns),
            window=window,
            where=where,
            schedule_ms=self.select.schedule_ms,
            shape=reader.shape(having, order, self.select.limit),
        ).reading(self.stream.reads)

    def _shape_reader(self, columns: list[Column], window: Window | None) -> ShapeReader:
        owner = f"view '{self.select.name}'"
        scope = ShapeScope(
            self.scope, self.keys, window, columns, owner, may_add=True, starts_window=self._starts_window
        )
        known = {column.name.lower() for column in columns}
        names = (item.alias.lower() for item in self.select.items if item.alias)
        scope.broken = frozenset(name for name in names if name not in known)  # until they are read
        return ShapeReader(scope)

    def _read_shape(
        self, reader: ShapeReader, columns: dict[int, Column], computed: list[int]
    ) -> tuple[Expression | None, list[Order]]:
        """Read the outputs in the order of SELECT, then HAVING and ORDER BY, which may name each of them."""
        for place, item in enumerate(self.select.items):
            with self.mistakes.collect():
                if place in columns:
                    reader.add_column(columns[place])
                elif place in computed:
                    self._add_output(reader, item)
            reader.items.append(None)
            with suppress(DefinitionError):  # reported above
                reader.items[-1] = Checker(self.source, reader.scope).term(item.node)
        having, order = None, []
        if self.select.having:
            with self.mistakes.collect():
                having = reader.having(self.source, self.select.having)
        for order_item in self.select.order:
            with self.mistakes.collect():
                order.append(reader.order(self.source, order_item))
        return having, order

    def _add_output(self, reader: ShapeReader, item: SelectItem) -> None:
        if isinstance(item.node, Star):
            raise self._error(item.node.at, "SELECT * is not supported in a view", fix="name the keys and aggregates")
        keys = [key.name.lower() for key in self.keys]
        if item.alias and item.alias.lower() in keys and not contains_aggregate(item.node):
            raise self._not_grouped(item, check(self.source, item.node, self.scope))
        try:
            reader.check(self.source, item.node)
        except DefinitionError as error:
            follows = all(isinstance(one, FollowUpError) for one in each(error))
            if not contains_aggregate(item.node) and not follows and not self._names_output(item.node):
                expression = check(self.source, item.node, self.scope)  # its mistakes are those of a key
                raise self._not_grouped(item, expression) from None
            raise
        if item.alias is None:
            raise self._error(item.node.at, "this expression has no name", fix="add one: AS total, or another name")
        with located(self.source, item.node.at):
            check_name(item.alias, "column")
        reader.add(self.source, item.node, item.alias)

    def _names_output(self, node: Node) -> bool:
        """Return True if an expression names an item of SELECT that is no field."""
        aliases = {item.alias.lower() for item in self.select.items if item.alias} - self.scope.fields.keys()
        return any(isinstance(part, Name) and not part.of and part.name.lower() in aliases for part in walk(node))

    def _repeated_at(self) -> int:
        """The place of the first item whose AS is that of an item before it; of the statement if there is none."""
        names: set[str] = set()
        for item in self.select.items:
            name = (item.alias or (item.node.name if isinstance(item.node, Name) else "")).lower()
            if name in names:
                return item.node.at
            names |= {name} - {""}
        return self.select.at

    def _error(self, at: int, message: str, **more: Any) -> DefinitionError:
        return self.source.error(at, message, **more)

    def _read_groups(self) -> None:
        errors_before = len(self.mistakes.errors)
        names_window = False
        if self.table_window:
            with self.mistakes.collect():
                self.window = read_window(self.source, self.table_window, self.stream, self.scope)
        groups = self._groups()
        bucket = self._find_bucket([node for node, _ in groups])
        declared = self.table_window or bucket or any(is_window_call(node) for node, _ in groups)
        for node, alias in groups:
            with self.mistakes.collect():
                if is_window_call(node):
                    names_window = True
                    self._set_window(node)
                elif node is bucket:
                    names_window = True
                    self.window = read_bucket(self.source, node, self.stream)
                elif self._starts_window(node):
                    names_window = True
                elif window_bound(self.source, node):
                    names_window = True
                    if not declared:
                        raise self._error(
                            node.at,
                            "GROUP BY names a window that is not defined",
                            fix=f"write window({self.stream.time_column}, '1 minute')",
                        )
                else:
                    self.keys.append(self._key(node, alias))
        with self.mistakes.collect():
            if self.window and not names_window:
                raise self._error(
                    self.select.at, "the window is not in GROUP BY", fix="GROUP BY window_start, window_end, …"
                )
            if self.window and self.window.session and self.table_window:
                self._check_partition(self.select.from_clause.input.partition)
        self.groups_are_valid = len(self.mistakes.errors) == errors_before and not self.select.incomplete

    def _check_partition(self, partition: Iterable[Node]) -> None:
        """Refuse sessions of other keys than those of the rows: each session is one row."""
        expressions = [check(self.source, node, self.scope) for node in partition]
        keys = [key.expression for key in self.keys]
        if set(expressions) != set(keys):
            names = ", ".join(key.sql for key in keys) or "nothing"
            raise self._error(
                self.table_window.at if self.table_window else self.select.at,
                "the keys of SESSION are not those of GROUP BY: a session is a row",
                found=f"PARTITION BY {', '.join(each.sql for each in expressions) or 'nothing'}",
                expected=f"PARTITION BY {names}" if keys else "no PARTITION BY, as GROUP BY has no keys",
            )

    def _groups(self) -> list[tuple[Node, str | None]]:
        if self.select.all_keys:
            groups = [(item.node, item.alias) for item in self.select.items if self._is_group(item)]
        else:
            groups = [self._resolve(node) for node in self.select.groups]
        return [(whole_window(node), alias) for node, alias in groups]

    def _is_group(self, item: SelectItem) -> bool:
        """Return True if GROUP BY ALL groups by an item: not if it has an aggregate, or names other outputs."""
        if contains_aggregate(item.node):
            return False
        if is_window_call(item.node) or is_bucket(item.node, self.stream) or window_bound(self.source, item.node):
            return True
        try:
            check(self.source, item.node, self.scope)
        except DefinitionError:
            return item.alias is None
        return True

    def _find_bucket(self, groups: list[Node]) -> Node | None:
        """The date_trunc or its like that is the window: the shortest, where no other window is declared."""
        if self.table_window or any(map(is_window_call, groups)):
            return None
        buckets = [node for node in groups if is_bucket(node, self.stream)]
        if len(buckets) < 2:
            return next(iter(buckets), None)
        windows: list[tuple[int, Node]] = []
        for node in buckets:
            with self.mistakes.collect():
                windows.append((read_bucket(self.source, node, self.stream).size_ms, node))
        return min(windows, key=lambda window: window[0])[1] if windows else None

    def _starts_window(self, node: Node) -> bool:
        """Return True if an expression such as date_trunc is the start of the view's window."""
        if self.window is None or not is_bucket(node, self.stream):
            return False
        try:
            return same_windows(self.window, read_bucket(self.source, node, self.stream))
        except DefinitionError:
            return False  # reported when it is checked as a key

    def _set_window(self, node: Node) -> None:
        assert isinstance(node, Call), "a window is a call"
        window = read_window(self.source, node, self.stream, self.scope)
        if self.window and not same_windows(self.window, window):  # twice the same: its start and its end
            raise self._error(node.at, "a view has one window", fix="remove one; a query can use other windows")
        self.window = window

    def _resolve(self, node: Node) -> tuple[Node, str | None]:
        """The expression that GROUP BY names by position or alias in SELECT; as in Spark, a field precedes an alias."""
        items = self.select.items
        if isinstance(node, Literal) and node.type == INT and 1 <= int(node.text) <= len(items):
            item = items[int(node.text) - 1]
            return item.node, item.alias
        if isinstance(node, Name) and not node.of and node.name.lower() not in self.scope.fields:
            for item in items:
                if item.alias and item.alias.lower() == node.name.lower():
                    return item.node, item.alias
        return node, None

    def _key(self, node: Node, alias: str | None) -> Key:
        if isinstance(node, Literal) and node.type == INT:
            raise self._error(node.at, f"GROUP BY {node.text}: SELECT has {len(self.select.items)} items")
        if contains_aggregate(node):
            raise self._error(node.at, "an aggregate cannot be a key", fix="GROUP BY fields or expressions of fields")
        expression = check(self.source, node, self.scope)
        with located(self.source, node.at):
            check_key(expression)
        name = alias or self._alias_of(expression) or Checker(self.source, self.scope).name(node)
        if name is None:
            written = plain(expression.sql)
            raise self._error(node.at, f"the key {written} has no name", fix=f"select it: {written} AS …")
        with located(self.source, node.at):
            check_name(name, "key")
        return Key(name, expression)

    def _alias_of(self, expression: Expression) -> str | None:
        for item in self.select.items:
            if item.alias and not contains_aggregate(item.node):
                try:
                    if not window_bound(self.source, item.node) and (
                        check(self.source, item.node, self.scope) == expression
                    ):
                        return item.alias
                except DefinitionError:
                    continue  # reported when the item itself is checked
        return None

    def _is_key(self, item: SelectItem) -> bool:
        """Return True if an item is a bound of the window or a key, and not an expression over these."""
        node = item.node
        bound = "start" if self._starts_window(node) else window_bound(self.source, node)
        if bound:
            if self.window is not None and self.groups_are_valid:
                refuse_other_window(self.source, node, bound, self.window, self.stream, self.scope)
            self._name_bound(bound, item)
            return True
        try:
            expression = check(self.source, node, self.scope)
        except DefinitionError:
            if not self.groups_are_valid:
                raise
            return False  # it may name other outputs
        names = [key.name for key in self.keys if key.expression == expression]
        if item.alias and names and item.alias not in names:
            raise self._error(
                node.at, f"{expression.sql} is selected as '{names[0]}' and as '{item.alias}'", fix="keep one"
            )
        return bool(names) or not self.groups_are_valid

    def _name_bound(self, bound: Bound, item: SelectItem) -> None:
        node, alias = item.node, item.alias
        if self.window is None and self.groups_are_valid:
            raise self._error(
                node.at, "SELECT names a window, but GROUP BY has none",
                fix=f"GROUP BY window({self.stream.time_column}, '1 minute')",
            )  # fmt: skip
        if alias is None or alias.lower() == f"window_{bound}" or (bound == "both" and alias.lower() == "window"):
            return  # the default name
        if bound == "both":
            raise self._error(
                node.at,
                f"a window is two columns of the answer, so it cannot be selected as '{alias}'",
                **{"fix": "name its bounds: window_start AS …, window_end AS …", **self._bounds(node, alias)},
            )
        with located(self.source, node.at):
            check_name(alias, "column")
        if self.names.setdefault(bound, alias) != alias:
            raise self._error(
                node.at, f"the {bound} of the window is selected as '{self.names[bound]}' and as '{alias}'",
                fix="keep one",
            )  # fmt: skip

    def _bounds(self, node: Node, alias: str) -> dict[str, Any]:
        """Return what to write for `window(at, '1 minute') AS w`, and where."""
        text, span = self.source.text, node.span or (node.at, node.at)
        written = re.compile(rf"\s+(?:AS\s+)?[`\"]?{re.escape(alias)}\b[`\"]?", re.IGNORECASE).match(text, span[1])
        if not node.span or not written:
            return {}
        span = (span[0], written.end())
        if is_window_call(node) and not (self.table_window or any(map(is_window_call, self.select.groups))):
            write = f"{text[slice(*node.span)]}.start AS {quote(alias)}"  # GROUP BY has its name or place
            fix = f"name its start, as in {write}; the answer also has window_end"
            return {"fix": fix, "write": write, "span": span}
        names = [quote(f"{alias}_{bound}") for bound in ("start", "end")]
        write = f"window_start AS {names[0]}, window_end AS {names[1]}"
        return {"fix": f"name its bounds: {write}", "write": write, "span": span}

    def _not_grouped(self, item: SelectItem, expression: Expression) -> DefinitionError:
        field = next((key.name for key in self.keys if item.alias and key.name.lower() == item.alias.lower()), None)
        if field is not None:
            return self._error(
                item.node.at,
                f"GROUP BY {field} is the field '{field}', not {expression.sql} AS {item.alias}: as in Spark, a field "
                "comes before an alias",
                fix=f"to group by the expression write GROUP BY {expression.sql}; to group by the field select {field}",
            )
        return self._error(
            item.node.at,
            f"{expression.sql} is neither an aggregate nor in GROUP BY",
            fix=f"add it to GROUP BY, or write max({expression.sql})",
        )
