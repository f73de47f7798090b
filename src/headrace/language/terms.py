"""Expressions as trees with types: terms, their canonical Spark SQL, and the expressions that definitions carry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.language.durations import DAY_MS, HOUR_MS, MINUTE_MS
from headrace.language.source_text import escape
from headrace.language.token_cursor import RESERVED
from headrace.lazy import later
from headrace.types import BOOLEAN, Type

check = later("headrace.language.check")  # for stored expressions whose tree is needed

# Words that Spark or this parser would not read as the name of a field.
KEYWORDS = RESERVED | {
    "ALL", "ARRAY", "CURRENT_DATE", "CURRENT_PATH", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "DATE",
    "EXISTS", "FILTER", "INTERVAL", "LOCALTIME", "MAP", "OVER", "SESSION_USER", "STRUCT", "TIME", "TIMESTAMP", "USER",
    "WINDOW",
}  # fmt: skip
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")

OR, AND, NOT, PREDICATE, COMPARISON, SUM, PRODUCT, SIGN, PRIMARY = range(9)
LEVELS = {
    "OR": OR, "AND": AND, "NOT": NOT,
    "=": COMPARISON, "<>": COMPARISON, "<": COMPARISON, "<=": COMPARISON, ">": COMPARISON, ">=": COMPARISON,
    "<=>": COMPARISON, "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT, "DIV": PRODUCT,
}  # fmt: skip
PREDICATES = ("IS NULL", "IS TRUE", "IS FALSE", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE")
LEAVES = ("field", "part", "item", "literal", "interval", "sql")  # what is in lower case, and no function
CASTS = ("CAST", "TRY_CAST")
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

    def parts(self) -> Iterator[Term]:
        """The term and all that it contains, in the order of the text."""
        stack = [self]
        while stack:
            term = stack.pop()
            yield term
            stack += reversed(term.args)

    def fields(self) -> frozenset[str]:
        """The names of the fields that it reads."""
        return frozenset(part.text for part in self.parts() if part.op == "field")

    def calls(self) -> tuple[str, ...]:
        """The names of the functions that it calls, each once."""
        return tuple(dict.fromkeys(part.op for part in self.parts() if part.op.islower() and part.op not in LEAVES))

    def words(self) -> frozenset[str]:
        """Every word of its text that may be the name of a field: also parts, functions, keywords and types.

        Which fields a definition reads was first decided by these words, and is stored.
        """
        words = set[str]()
        for part in self.parts():
            if part.op in ("field", "part"):
                words.add(part.text)
            elif part.op == "CASE":
                words |= {"CASE", "WHEN", "THEN", "ELSE", "END"}
            elif part.op in TRIMS and len(part.args) == 2:
                words |= {"trim", TRIMS[part.op], "FROM"}
            elif part.op not in LEAVES:
                words.update(_WORD.findall(f"{part.op} AS {part.type}" if part.op in CASTS else part.op))
                words |= {"NOT"} if part.negated else set()
            elif part.op != "item" and part.type.name != "STRING":
                words.update(_WORD.findall(render(part)))
        return frozenset(words)

    def substitute(self, values: Mapping[str, Term]) -> Term:
        """The term with these values in place of fields."""
        if self.op == "field":
            return values.get(self.text, self)
        return replace(self, args=tuple(arg.substitute(values) for arg in self.args)) if self.args else self


class Expression:
    """A scalar expression: its tree, the type of its value, and its canonical Spark SQL.

    The text of a checked one is rendered when it is first needed; a stored one has its text, and its tree is parsed
    when it is first needed. Expressions are equal if their texts and types are.
    """

    __slots__ = ("_is_applied", "_sql", "_term", "_types", "type")

    def __init__(self, term: Term, of: Type | None = None) -> None:
        """The expression of a tree; `of` is the type of its value where it is not that of the tree."""
        self.type = of or term.type
        self._term: Term | None = term
        self._sql: str | None = None
        self._types: Mapping[str, Type] | None = None
        self._is_applied = False

    @classmethod
    def stored(
        cls, sql: str, of: Type, types: Mapping[str, Type] | None = None, *, is_applied: bool = False
    ) -> Expression:
        """An expression that was stored as text, over fields of these types; None: those of its first use.

        With `is_applied`, patterns are not checked: the release that applied the definition has checked them.
        """
        expression = cls.__new__(cls)
        expression.type, expression._sql, expression._term = of, sql, None
        expression._types, expression._is_applied = types, is_applied
        return expression

    @classmethod
    def raw(cls, sql: str, of: Type) -> Expression:
        """An expression in the SQL of an engine, which has no tree."""
        return cls(Term("sql", of, text=sql))

    @classmethod
    def field(cls, name: str, of: Type) -> Expression:
        """The value of a field."""
        return cls(Term("field", of, text=name))

    @property
    def sql(self) -> str:
        """The canonical Spark SQL."""
        if self._sql is None:
            self._sql = render(self.term)
        return self._sql

    @property
    def term(self) -> Term:
        """The tree."""
        if self._term is None:
            self._term = self._parsed(self._types or {})
        return self._term

    def over(self, types: Mapping[str, Type]) -> Term:
        """The tree over fields of these types; it is parsed again only where they are other ones."""
        if self._term is None:
            self._term = self._parsed(types)
        fields = [part for part in self.term.parts() if part.op == "field"]
        return self.term if all(types.get(each.text) == each.type for each in fields) else self._parsed(types)

    def _parsed(self, types: Mapping[str, Type]) -> Term:
        term: Term = check.parse_stored(self.sql, types, is_applied=self._is_applied)
        return term

    def part(self, name: str, of: Type) -> Expression:
        """The value of a part of a STRUCT."""
        return Expression(Term("part", of, (self.term,), text=name))

    def cast(self, to: Type) -> Expression:
        """The value as another type."""
        return Expression(Term("CAST", to, (self.term,)))

    @property
    def is_present(self) -> Expression:
        """The condition that the value is not NULL."""
        return Expression(Term("IS NULL", BOOLEAN, (self.term,), negated=True))

    def fields(self) -> frozenset[str]:
        """The names of the fields that it reads."""
        return self.term.fields()

    def calls(self) -> tuple[str, ...]:
        """The names of the functions that it calls, each once."""
        return self.term.calls()

    def to_json(self) -> dict[str, str]:
        """The text and the type, as plain JSON values."""
        return {"sql": self.sql, "type": str(self.type)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and (self.sql, self.type) == (other.sql, other.type)

    def __hash__(self) -> int:
        return hash((self.sql, self.type))

    def __str__(self) -> str:
        return self.sql

    def __repr__(self) -> str:
        return f"Expression({self.sql!r}, {self.type})"

    def __reduce__(self) -> tuple[Callable[..., Expression], tuple[Any, ...]]:
        """As text: a long tree is too deep for pickle."""
        if self._term is None:
            return _unpickled, (self.sql, self.type, self._types, self._is_applied)
        if any(part.op == "sql" for part in self._term.parts()):
            return Expression.raw, (self.sql, self.type)
        types = {part.text: part.type for part in self._term.parts() if part.op == "field"}
        return _unpickled, (self.sql, self.type, types, True)


def conjunction(conditions: Iterable[Expression]) -> Expression | None:
    """The condition that all of these hold; None if there are none."""
    terms = [condition.term for condition in conditions]
    parts = [part for term in terms for part in (term.args if term.op == "AND" else (term,))]
    if len(parts) < 2:
        return Expression(parts[0]) if parts else None
    return Expression(Term("AND", BOOLEAN, tuple(parts)))


def _unpickled(sql: str, of: Type, types: Mapping[str, Type] | None, is_applied: bool) -> Expression:
    return Expression.stored(sql, of, types, is_applied=is_applied)


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
