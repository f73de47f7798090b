"""Expressions as they were written: a tree without types, each node with its offset in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from headrace.types import Type


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
