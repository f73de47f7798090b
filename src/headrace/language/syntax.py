"""Expressions and row-wise queries as they were written: trees without types, each node with its offset in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Literal as OneOf
from typing import Protocol

from headrace.types import Type

JoinKind = OneOf["inner", "left", "semi", "anti"]


@dataclass(frozen=True)
class Node:
    """A piece of an expression."""

    at: int
    span: tuple[int, int] | None = field(default=None, compare=False, kw_only=True)  # the offsets of all of it


@dataclass(frozen=True)
class Name(Node):
    """A field, alias or window column; `of` is the stream in `visits.page`."""

    name: str
    of: str | None = None


@dataclass(frozen=True)
class Part(Node):
    """value.name: a part of a STRUCT."""

    value: Node
    name: str


@dataclass(frozen=True)
class Item(Node):
    """value[key]: an element of an ARRAY, counted from 0, or the value of a key of a MAP."""

    value: Node
    key: Node


@dataclass(frozen=True)
class Literal(Node):
    """A constant; `text` is its value, spelled canonically for its type. `type` None is NULL."""

    text: str
    type: Type | None


@dataclass(frozen=True)
class Interval(Node):
    """A fixed span of time, or one of the calendar as it was written, such as 1 MONTH."""

    ms: int
    calendar: str = ""


@dataclass(frozen=True)
class Star(Node):
    """The * of count(*) and SELECT *."""


@dataclass(frozen=True)
class WrittenCall:
    """A call as it was written, for messages that say what to write instead."""

    end: int  # the offset after it
    arguments: tuple[str, ...]
    filter: str = ""  # FILTER (WHERE …)
    parametric: bool = False  # topK(10)(x): the arguments are 10 and x
    over: tuple[str, ...] | None = None  # OVER (PARTITION BY …): what it partitions by


@dataclass(frozen=True)
class Call(Node):
    """name(args), and for aggregates DISTINCT and FILTER (WHERE …)."""

    name: str
    args: tuple[Node, ...]
    distinct: bool = False
    where: Node | None = None
    written: WrittenCall | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Operation(Node):
    """A unary or binary operator other than AND and OR; `op` is its canonical spelling."""

    op: str
    args: tuple[Node, ...]


@dataclass(frozen=True)
class Logic(Node):
    """A chain of AND or of OR."""

    op: str
    args: tuple[Node, ...]
    spans: tuple[tuple[int, int], ...] = field(default=(), compare=False)  # of the args, if none was in parentheses


@dataclass(frozen=True)
class Test(Node):
    """A predicate after its operand: IS NULL, IN, BETWEEN, LIKE, …; `args` begins with the operand."""

    op: str
    args: tuple[Node, ...]
    negated: bool = False


@dataclass(frozen=True)
class TableQuery(Node):
    """operand IN (SELECT column FROM table WHERE …), or EXISTS (SELECT 1 FROM table WHERE …) without an operand."""

    operand: Node | None
    table: str
    table_at: int
    alias: str | None
    column: str | None
    where: Node | None
    negated: bool = False


@dataclass(frozen=True)
class Case(Node):
    """CASE WHEN … THEN … ELSE … END."""

    whens: tuple[tuple[Node, Node], ...]
    otherwise: Node | None


@dataclass(frozen=True)
class Cast(Node):
    """CAST or TRY_CAST."""

    value: Node
    to: Type
    function: str  # CAST or TRY_CAST


def walk(node: Node) -> Iterator[Node]:
    """A node and all nodes in it."""
    yield node
    pending = [getattr(node, each.name) for each in fields(node) if each.compare]
    while pending:
        value = pending.pop()
        if isinstance(value, Node):
            yield from walk(value)
        elif isinstance(value, tuple):
            pending += value


# Queries


class FromStep(Protocol):
    """A step after the first item of FROM: a join, an explode or a sample."""

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
    window: Call | None = None  # TUMBLE(TABLE x, …) and its like
    partition: tuple[Node, ...] = ()  # PARTITION BY of SESSION(TABLE x PARTITION BY …, …)


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
class SampleClause:
    """TABLESAMPLE: a share in percent, by what rows are chosen, and the seed."""

    at: int
    percent: float
    keys: tuple[Node, ...] = ()
    seed: int | None = None
    alias: str | None = None


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
class SelectItem:
    """One item of the SELECT of a view or an alert."""

    node: Node
    alias: str | None
    text: str = ""  # the expression as it was written


@dataclass(frozen=True)
class OrderItem:
    """An item of ORDER BY as it was written."""

    node: Node
    descending: bool
    nulls_first: bool


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


def conjuncts(node: Node | None) -> tuple[Node, ...]:
    """Return the conditions that AND connects."""
    if node is None:
        return ()
    return node.args if isinstance(node, Logic) and node.op == "AND" else (node,)
