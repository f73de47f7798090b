"""From the clauses of a view's SELECT to a View: keys, window, columns and their names."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.define.columns import contains_aggregate, make_column
from headrace.define.expression import Checker, Scope, check, check_condition
from headrace.define.loosening import fields_read
from headrace.define.model import Column, Key, Stream, View, Window
from headrace.define.rules import WINDOW_COLUMNS, check_distinct, check_key, check_name, located
from headrace.define.syntax import Call, Literal, Name, Node, Star
from headrace.define.tokens import Source
from headrace.define.windows import WINDOW_CALLS, is_window_bound, read_window
from headrace.errors import DefinitionError
from headrace.types import INT, Expression


@dataclass(frozen=True)
class Item:
    """One item of SELECT."""

    node: Node
    alias: str | None


@dataclass(frozen=True)
class Select:
    """CREATE MATERIALIZED VIEW as it was written."""

    source: Source
    at: int
    name: str
    schedule_ms: int | None
    items: tuple[Item, ...]
    stream: str
    stream_at: int
    alias: str | None
    where: Node | None
    groups: tuple[Node, ...]
    table_window: Call | None  # FROM TUMBLE(visits, at, …)


def build_view(select: Select, stream: Stream) -> View:
    """The view over its stream, every rule checked."""
    with located(select.source, select.at):
        check_name(select.name, "view")
    return _Builder(select, stream).view()


class _Builder:
    def __init__(self, select: Select, stream: Stream) -> None:
        self.select = select
        self.source = select.source
        self.stream = stream
        qualifiers = (stream.name, *([select.alias] if select.alias else []))
        self.scope = Scope(stream.types(), f"stream '{stream.name}'", qualifiers)

    def view(self) -> View:
        window, keys = self._groups()
        columns: list[Column] = []
        for item in self.select.items:
            if self._is_key(item, window, keys):
                continue
            columns.append(make_column(self.source, self.scope, item.node, item.alias))
        if not columns:
            raise self._error(
                self.select.at, f"view '{self.select.name}' has no aggregate", fix="add one: count(*) AS hits"
            )
        with located(self.source, self.select.at):
            check_distinct([*(key.name for key in keys), *(column.name for column in columns)], "the column")
        node = self.select.where
        where = check_condition(self.source, node, self.scope, "WHERE") if node else None
        return View(
            name=self.select.name,
            stream=self.stream.name,
            keys=tuple(keys),
            columns=tuple(columns),
            window=window,
            where=where,
            schedule_ms=self.select.schedule_ms,
            reads=fields_read(self.stream, keys, columns, where),
        )

    def _error(self, at: int, message: str, **more: str | None) -> DefinitionError:
        return self.source.error(at, message, **more)

    def _groups(self) -> tuple[Window | None, list[Key]]:
        window, named = None, False
        keys: list[Key] = []
        if self.select.table_window:
            window = read_window(self.source, self.select.table_window, self.stream)
        for node in self.select.groups:
            if isinstance(node, Call) and node.name.lower() in WINDOW_CALLS:
                if window:
                    raise self._error(
                        node.at, "a view has one window", fix="remove one; other windows are asked for later"
                    )
                window, named = read_window(self.source, node, self.stream), True
            elif self._is_window_name(node):
                named = True
                if window is None and not any(_is_window_call(g) for g in self.select.groups):
                    raise self._error(
                        node.at,
                        "GROUP BY names a window that is not there",
                        fix=f"write window({self.stream.time_column}, '1 minute')",
                    )
            else:
                keys.append(self._key(node))
        if window and not named:
            raise self._error(
                self.select.at, "the window is not in GROUP BY", fix="GROUP BY window_start, window_end, …"
            )
        return window, keys

    def _is_window_name(self, node: Node) -> bool:
        if not isinstance(node, Name):
            return False
        return (node.of or "").lower() == "window" or node.name.lower() in WINDOW_COLUMNS - set(self.scope.fields)

    def _key(self, node: Node) -> Key:
        if isinstance(node, Literal) and node.type == INT:
            node, alias = self._ordinal(node)
        else:
            alias = None
        if isinstance(node, Name) and not node.of and node.name.lower() not in self.scope.fields:
            for item in self.select.items:
                if item.alias and item.alias.lower() == node.name.lower():
                    node, alias = item.node, item.alias
                    break
        if contains_aggregate(node):
            raise self._error(node.at, "an aggregate cannot be a key", fix="GROUP BY fields or expressions of fields")
        expression = check(self.source, node, self.scope)
        with located(self.source, node.at):
            check_key(expression)
        name = alias or self._alias_of(expression) or Checker(self.source, self.scope).name(node)
        if name is None:
            raise self._error(node.at, f"the key {expression.sql} has no name", fix=f"select it: {expression.sql} AS …")
        with located(self.source, node.at):
            check_name(name, "key")
        return Key(name, expression)

    def _ordinal(self, node: Literal) -> tuple[Node, str | None]:
        position = int(node.text)
        if not 1 <= position <= len(self.select.items):
            raise self._error(node.at, f"GROUP BY {position}: SELECT has {len(self.select.items)} items")
        item = self.select.items[position - 1]
        return item.node, item.alias

    def _alias_of(self, expression: Expression) -> str | None:
        for item in self.select.items:
            if item.alias and not contains_aggregate(item.node) and not is_window_bound(item.node):
                try:
                    if check(self.source, item.node, self.scope) == expression:
                        return item.alias
                except DefinitionError:
                    continue  # reported when the item itself is looked at
        return None

    def _is_key(self, item: Item, window: Window | None, keys: list[Key]) -> bool:
        node = item.node
        if is_window_bound(node) or self._is_window_name(node):
            if window is None:
                raise self._error(
                    node.at, "SELECT names a window, but GROUP BY has none",
                    fix=f"GROUP BY window({self.stream.time_column}, '1 minute')",
                )  # fmt: skip
            return True
        if isinstance(node, Star):
            raise self._error(node.at, "SELECT * has no meaning in a view", fix="name the keys and the aggregates")
        if contains_aggregate(node):
            return False
        expression = check(self.source, node, self.scope)
        named = [key.name for key in keys if key.expression == expression]
        if item.alias and named and item.alias not in named:
            raise self._error(
                node.at, f"{expression.sql} is selected as '{named[0]}' and as '{item.alias}'", fix="keep one"
            )
        if not named:
            raise self._error(
                node.at,
                f"{expression.sql} is neither an aggregate nor in GROUP BY",
                fix=f"add it to GROUP BY, or write max({expression.sql})",
            )
        return True


def _is_window_call(node: Node) -> bool:
    return isinstance(node, Call) and node.name.lower() in WINDOW_CALLS
