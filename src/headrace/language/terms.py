"""Checked expressions with types, and their canonical Spark SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.language.durations import DAY_MS, HOUR_MS, MINUTE_MS
from headrace.language.source_text import escape
from headrace.language.token_cursor import RESERVED
from headrace.types import Type

# Words that Spark or this parser would not read as the name of a field.
KEYWORDS = RESERVED | {
    "ALL", "ARRAY", "CURRENT_DATE", "CURRENT_PATH", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "DATE",
    "EXISTS", "FILTER", "INTERVAL", "LOCALTIME", "MAP", "OVER", "SESSION_USER", "STRUCT", "TIME", "TIMESTAMP", "USER",
    "WINDOW",
}  # fmt: skip
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")

OR, AND, NOT, PREDICATE, COMPARISON, SUM, PRODUCT, SIGN, PRIMARY = range(9)
LEVELS = {
    "OR": OR, "AND": AND, "NOT": NOT,
    "=": COMPARISON, "<>": COMPARISON, "<": COMPARISON, "<=": COMPARISON, ">": COMPARISON, ">=": COMPARISON,
    "<=>": COMPARISON, "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT, "DIV": PRODUCT,
}  # fmt: skip
PREDICATES = ("IS NULL", "IS TRUE", "IS FALSE", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE")
TRIMS = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}


@dataclass(frozen=True)
class Term:
    """A checked expression: an operator or function `op` and its `args`.

    `field`, `part`, `literal` and `sql` have `text`; that of `sql` is rendered as it is. The args of CASE are
    condition, value, condition, value, …, and the ELSE value if their number is odd.
    """

    op: str
    type: Type
    args: tuple[Term, ...] = ()
    text: str = ""
    negated: bool = False

    @property
    def is_literal(self) -> bool:
        return self.op == "literal"


def quote(name: str) -> str:
    """A name in Spark SQL, in backticks only if it needs them."""
    return name if _PLAIN.match(name) and name.upper() not in KEYWORDS else in_backticks(name)


def unquote(text: str) -> str:
    """The name that is written so, with or without quotes."""
    mark = text[:1]
    return text[1:-1].replace(mark * 2, mark) if mark in ("`", '"') else text


def in_backticks(name: str) -> str:
    """A name in Spark SQL, whatever its characters are."""
    return "`" + name.replace("`", "``") + "`"


def render(term: Term) -> str:
    """The canonical Spark SQL of a term."""
    args = term.args
    match term.op:
        case "field":
            return quote(term.text)
        case "sql":
            return term.text
        case "literal":
            return _literal(term)
        case "part":
            return f"{_within(args[0], PRIMARY)}.{quote(term.text)}"
        case "item":
            return f"{_within(args[0], PRIMARY)}[{render(args[1])}]"
        case "interval":
            return _interval(int(term.text))
        case "CASE":
            return _case(args)
        case "CAST" | "TRY_CAST":
            return f"{term.op}({render(args[0])} AS {term.type})"
        case op if op in TRIMS and len(args) == 2:  # Spark's trim(a, b) removes the characters of a from b
            return f"trim({TRIMS[op]} {render(args[1])} FROM {render(args[0])})"
        case op if op in PREDICATES:
            return _predicate(term)
        case "OR" | "AND":
            level = LEVELS[term.op]
            return f" {term.op} ".join(_within(arg, level + 1) for arg in args)
        case "NOT":
            return f"NOT {_within(args[0], NOT)}"
        case "-" if len(args) == 1:
            return f"-{_within(args[0], PRIMARY)}"
        case op if op in LEVELS:
            level = LEVELS[op]
            least = level + 1 if level == COMPARISON else level
            return f"{_within(args[0], least)} {op} {_within(args[1], level + 1)}"
        case _:
            return f"{term.op}({', '.join(render(arg) for arg in args)})"


def _level(term: Term) -> int:
    if term.op == "-" and len(term.args) == 1:
        return SIGN
    if term.op in PREDICATES:
        return PREDICATE
    if term.op == "literal" and term.text.startswith("-") and term.type.is_numeric:
        return SIGN
    return LEVELS.get(term.op, PRIMARY)


def _within(term: Term, least: int) -> str:
    sql = render(term)
    return sql if _level(term) >= least else f"({sql})"


def _literal(term: Term) -> str:
    if term.type.name == "STRING":
        return escape(term.text)
    if term.type.name in ("DATE", "TIMESTAMP"):
        return f"{term.type.name} '{term.text}'"
    return term.text


def _interval(ms: int) -> str:
    for size, unit in ((DAY_MS, "DAY"), (HOUR_MS, "HOUR"), (MINUTE_MS, "MINUTE")):
        if ms % size == 0 and ms:
            return f"INTERVAL '{ms // size}' {unit}"
    seconds = f"{ms // 1000}.{ms % 1000:03}".rstrip("0").rstrip(".")
    return f"INTERVAL '{seconds}' SECOND"


def _case(args: tuple[Term, ...]) -> str:
    pairs = len(args) // 2
    whens = "".join(f" WHEN {render(args[2 * i])} THEN {render(args[2 * i + 1])}" for i in range(pairs))
    otherwise = f" ELSE {render(args[-1])}" if len(args) % 2 else ""
    return f"CASE{whens}{otherwise} END"


def _predicate(term: Term) -> str:
    operand = _within(term.args[0], SUM)
    negation = "NOT " if term.negated else ""
    rest = [_within(arg, SUM) for arg in term.args[1:]]
    if term.op.startswith("IS "):
        return f"{operand} IS {negation}{term.op[3:]}"
    if term.op == "IN":
        return f"{operand} {negation}IN ({', '.join(render(arg) for arg in term.args[1:])})"
    return f"{operand} {negation}{term.op} {' AND '.join(rest)}"
