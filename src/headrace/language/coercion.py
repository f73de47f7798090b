"""Types as Spark (ansi off) combines them: common types, the type of arithmetic, casts, and texts that are read as
times.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.language.literals import parse_date, parse_timestamp
from headrace.language.source_text import SourceText
from headrace.language.syntax import Node
from headrace.language.terms import Term, render
from headrace.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal

VOID = Type("VOID")  # the type of NULL, and of a field whose type is not known: it fits everything
INTERVAL = Type("INTERVAL")  # only next to a TIMESTAMP

_LEAST_SCALE = 6  # what Spark keeps of the scale when 38 digits do not suffice
_NUMBERS = ("INT", "BIGINT", "DOUBLE", "DECIMAL")
# From the name of a type to the types that it can be cast to.
CASTS = {
    "STRING": ("STRING", "BOOLEAN", "DATE", "TIMESTAMP", *_NUMBERS),
    "BOOLEAN": ("BOOLEAN", "STRING", *_NUMBERS),
    "DATE": ("DATE", "STRING", "TIMESTAMP"),
    "TIMESTAMP": ("TIMESTAMP", "STRING", "DATE"),
    **dict.fromkeys(_NUMBERS, ("STRING", "BOOLEAN", *_NUMBERS)),
}


def common_type(types: Sequence[Type]) -> Type | None:
    """The type that COALESCE, CASE, greatest, … of these have; None if there is none."""
    result = VOID
    for type_ in types:
        common = _join(result, type_)
        if common is None:
            return None
        result = common
    return result


def arithmetic_type(op: str, left: Type, right: Type) -> Type:
    """The type of `left op right` for numbers; an integer literal comes as the DECIMAL it fits in, if necessary."""
    if op == "DIV":
        return BIGINT
    if VOID in (left, right):
        other = right if left == VOID else left
        return DOUBLE if op == "/" and other.name != "DECIMAL" else other
    if DOUBLE in (left, right):
        return DOUBLE
    if "DECIMAL" in (left.name, right.name):
        return _decimal_type(op, as_decimal(left), as_decimal(right))
    return DOUBLE if op == "/" else BIGINT if BIGINT in (left, right) else INT


def as_decimal(type_: Type) -> Type:
    """The DECIMAL that holds every value of an integer type."""
    return {"INT": decimal(10, 0), "BIGINT": decimal(20, 0)}.get(type_.name, type_)


def fit_decimal(precision: int, scale: int) -> Type:
    """Spark's DECIMAL of a result: it reduces the scale when 38 digits do not suffice."""
    if precision <= 38:
        return decimal(precision, scale)
    return decimal(38, max(38 - (precision - scale), min(scale, _LEAST_SCALE)))


def _decimal_type(op: str, left: Type, right: Type) -> Type:
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    if op in "+-":
        scale = max(s1, s2)
        return fit_decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if op == "*":
        return fit_decimal(p1 + p2 + 1, s1 + s2)
    if op == "/":
        scale = max(_LEAST_SCALE, s1 + p2 + 1)
        return fit_decimal(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    return fit_decimal(min(p1 - s1, p2 - s2) + scale, scale)


def _join(a: Type, b: Type) -> Type | None:
    if a == b or b == VOID:
        return a
    if a == VOID:
        return b
    if {a, b} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    if not (a.is_numeric and b.is_numeric):
        return None
    if DOUBLE in (a, b):
        return DOUBLE
    if a.is_integer and b.is_integer:
        return BIGINT
    a, b = as_decimal(a), as_decimal(b)
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    return decimal(min(whole + scale, 38), min(scale, 38 - min(whole, 38)))


def is_text(term: Term) -> bool:
    """Return True if the term is a constant text."""
    return term.is_literal and term.type == STRING


def time_of(source: SourceText, node: Node, arg: Term, times: list[Type]) -> Term:
    """The literal of a text that is compared with a time or cast to one; an error if it is not a time."""
    day, time = parse_date(arg.text), parse_timestamp(arg.text)
    if TIMESTAMP not in times and day:
        return Term("literal", times[0], text=day)
    if time is None:
        raise source.error(node.at, f"'{arg.text}' is not a {times[0]}", expected="for example '2026-01-31 12:00:00'")
    return Term("literal", TIMESTAMP, text=time)


def time_constant(source: SourceText, node: Node, value: Term, to: Type) -> Term | None:
    """A constant text cast to a time becomes that time: Spark would read 'now' and 'today' there."""
    if value.type != STRING or to.name not in ("DATE", "TIMESTAMP") or _reads_a_field(value):
        return None
    if not value.is_literal:
        raise source.error(node.at, "a constant time must be a literal", found=render(value), fix=f"write {to} '…'")
    return time_of(source, node, value, [to])


def _reads_a_field(term: Term) -> bool:
    return term.op == "field" or any(_reads_a_field(arg) for arg in term.args)
