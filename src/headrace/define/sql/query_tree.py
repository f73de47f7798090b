"""Row-wise queries as they were written: SELECT, FROM, WITH and UNION ALL as a tree, and the streams that it names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from headrace.define.relation import JoinKind
from headrace.language.syntax import Node, TableQuery, walk


class FromStep(Protocol):
    """What follows the first item of FROM. `row_query.apply` knows each kind."""

    @property
    def at(self) -> int:
        """Its offset in the text."""


@dataclass(frozen=True)
class FromItem:
    """An item of FROM: the name of a stream or of a query of WITH, or a query in parentheses."""

    at: int
    name: str | None
    query: RowQuery | None = None
    alias: str | None = None
    columns: tuple[str, ...] = ()  # new names: AS t(a, b)


@dataclass(frozen=True)
class ExplodeStep:
    """LATERAL VIEW explode(…) and its like."""

    at: int
    values: Node
    outer: bool = False
    alias: str | None = None
    names: tuple[str, ...] = ()
    position: str | None = None
    first_position: int = 0  # 1 for WITH ORDINALITY


@dataclass(frozen=True)
class JoinItem:
    """JOIN users FOR SYSTEM_TIME AS OF c.ts u ON …"""

    at: int
    name: str
    kind: JoinKind
    alias: str | None = None
    as_of: Node | None = None
    on: Node | None = None
    using: tuple[str, ...] = ()
    name_end: int = 0  # the offset after the name
    left_out: tuple[tuple[int, int], ...] = ()  # offsets of what only a join of streams has, as WITHIN


@dataclass(frozen=True)
class FromClause:
    """All of FROM."""

    input: FromItem
    steps: tuple[FromStep, ...] = ()


@dataclass(frozen=True)
class StarItem:
    """`*` or `t.*` in SELECT, without some columns and with others replaced."""

    at: int
    of: str | None = None
    without: tuple[tuple[str, int], ...] = ()
    replaced: tuple[tuple[str, Node], ...] = ()


@dataclass(frozen=True)
class RowItem:
    """An expression in the SELECT of a row-wise query; explode of a map and posexplode have two names."""

    node: Node
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowSelect:
    """One SELECT of a row-wise query."""

    at: int
    items: tuple[StarItem | RowItem, ...]
    source: FromClause
    where: Node | None = None


@dataclass(frozen=True)
class RowQuery:
    """WITH … SELECT … UNION ALL SELECT …"""

    at: int
    parts: tuple[RowSelect | RowQuery, ...]
    queries: tuple[tuple[FromItem, RowQuery], ...] = ()  # of WITH: the name with its columns, and what it means


@dataclass(frozen=True)
class StreamRead:
    """A stream that a statement names."""

    name: str
    at: int = field(compare=False)


def streams_of(source: FromClause, known: frozenset[str] = frozenset()) -> Iterator[StreamRead]:
    """The streams that FROM names; `known` are the names of queries of WITH."""
    if source.input.query:
        yield from streams_of_query(source.input.query, known)
    elif source.input.name and source.input.name.lower() not in known:
        yield StreamRead(source.input.name, source.input.at)


def streams_of_query(query: RowQuery, known: frozenset[str] = frozenset()) -> Iterator[StreamRead]:
    """The streams that a query names."""
    for item, inner in query.queries:
        yield from streams_of_query(inner, known)
        known |= {(item.name or "").lower()}
    for part in query.parts:
        yield from streams_of_query(part, known) if isinstance(part, RowQuery) else streams_of(part.source, known)


def joined_in(source: FromClause, where: Node | None = None) -> Iterator[StreamRead]:
    """The tables that FROM and WHERE join."""
    if source.input.query:
        yield from joined_in_query(source.input.query)
    for step in source.steps:
        if isinstance(step, JoinItem):
            yield StreamRead(step.name, step.at)
    for node in walk(where) if where else ():
        if isinstance(node, TableQuery):
            yield StreamRead(node.table, node.table_at)


def joined_in_query(query: RowQuery) -> Iterator[StreamRead]:
    """The tables that a query joins."""
    for _, inner in query.queries:
        yield from joined_in_query(inner)
    for part in query.parts:
        yield from joined_in_query(part) if isinstance(part, RowQuery) else joined_in(part.source, part.where)
