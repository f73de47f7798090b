"""Constant texts that are read as dates and times."""

from __future__ import annotations

from headrace.define.expression.literals import parse_date, parse_timestamp
from headrace.define.expression.syntax import Node
from headrace.define.expression.terms import Term, render
from headrace.define.tokens import Source
from headrace.types import STRING, TIMESTAMP, Type


def is_text(term: Term) -> bool:
    """Whether the term is a constant text."""
    return term.is_literal and term.type == STRING


def time_of(source: Source, node: Node, arg: Term, times: list[Type]) -> Term:
    """The literal of a text that is compared with a time or cast to one; an error if it is not a time."""
    day, time = parse_date(arg.text), parse_timestamp(arg.text)
    if TIMESTAMP not in times and day:
        return Term("literal", times[0], text=day)
    if time is None:
        raise source.error(node.at, f"'{arg.text}' is not a {times[0]}", expected="for example '2026-01-31 12:00:00'")
    return Term("literal", TIMESTAMP, text=time)


def time_constant(source: Source, node: Node, value: Term, to: Type) -> Term | None:
    """A constant text cast to a time becomes that time: Spark would read 'now' and 'today' there."""
    if value.type != STRING or to.name not in ("DATE", "TIMESTAMP") or _reads_a_field(value):
        return None
    if not value.is_literal:
        raise source.error(node.at, "a constant time must be a literal", found=render(value), fix=f"write {to} '…'")
    return time_of(source, node, value, [to])


def _reads_a_field(term: Term) -> bool:
    return term.op == "field" or any(_reads_a_field(arg) for arg in term.args)
