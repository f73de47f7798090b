"""Casts, divisions and integer arithmetic as DuckDB computes them with Spark's values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.duckdb_connections import literal
from headrace.errors import DefinitionError
from headrace.language.coercion import VOID, as_decimal
from headrace.language.terms import COMPARISON, LEVELS, Term, render
from headrace.types import TIMESTAMP, Type

_BLANKS = "[\\x01-\\x20]*"
_WHOLE = f"^{_BLANKS}([+-]?\\d+)(?:\\.\\d*)?{_BLANKS}$"
_WHOLE_ONLY = f"^{_BLANKS}([+-]?\\d+){_BLANKS}$"
_NUMBER = f"^{_BLANKS}([+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][+-]?\\d+)?){_BLANKS}$"
_DAY = f"^{_BLANKS}(\\d{{4}}-\\d{{1,2}}-\\d{{1,2}})(?:[ T].*)?{_BLANKS}$"
_TIME = (
    f"^{_BLANKS}(\\d{{4}}-\\d{{1,2}}-\\d{{1,2}}(?:[ T]\\d{{1,2}}:\\d{{1,2}}(?::\\d{{1,2}}(?:\\.\\d{{1,6}})?)?)?)"
    f"\\d*{_BLANKS}(Z|UTC|[+-]\\d{{2}}(?::?\\d{{2}})?)?{_BLANKS}$"
)
# Functions of ours in DuckDB (`engine/time_functions.py`, `engine/zones.py`). They give microseconds since 1970.
READ_TIME = "headrace_time"


def cast_sql(sql: str, value: Term, cast: Term) -> str:
    """CAST or TRY_CAST of a value as Spark does it."""
    to, source = cast.type, value.type
    if source == VOID:
        if value.is_literal:
            return "NULL"
        raise DefinitionError(
            f"the type of {render(value)} must be known to translate its cast", fix="pass stream.types()"
        )
    if source == to:
        return sql
    if source.name == "STRING":
        return _from_text(sql, to, strict=cast.op == "TRY_CAST")
    if to.name == "STRING":
        return _to_text(sql, value)
    if to.is_integer and source.name in ("DOUBLE", "DECIMAL"):
        return f"TRY_CAST(trunc({sql}) AS {_name(to)})"
    if to.name == "BOOLEAN":
        return f"{sql} <> 0"
    return f"TRY_CAST({sql} AS {_name(to)})"


def time_sql(sql: str, value: Term, to: Type) -> str:
    """to_date(x) and to_timestamp(x)."""
    return cast_sql(sql, value, Term("CAST", to))


def parse_format_sql(sql: str, value: Term, pattern: str, to: Type) -> str:
    """to_date(x, format) and to_timestamp(x, format)."""
    if value.type.name in ("DATE", "TIMESTAMP"):
        return time_sql(sql, value, to)
    return f"CAST(make_timestamptz({READ_TIME}({sql}, {literal(pattern)})) AS {_name(to)})"


def _from_text(sql: str, to: Type, *, strict: bool) -> str:
    match to.name:
        case "INT" | "BIGINT":
            return f"TRY_CAST({_extract(sql, _WHOLE_ONLY if strict else _WHOLE)} AS {_name(to)})"
        case "DOUBLE" | "DECIMAL":
            return f"TRY_CAST({_extract(sql, _NUMBER)} AS {_name(to)})"
        case "BOOLEAN":
            word = f"lower(trim({sql}, ' '))"
            yes, no = "('t', 'true', 'y', 'yes', '1')", "('f', 'false', 'n', 'no', '0')"
            return f"CASE WHEN {word} IN {yes} THEN true WHEN {word} IN {no} THEN false END"
        case "DATE":
            return f"TRY_CAST({_extract(sql, _DAY)} AS DATE)"
    # More than six digits of a second are cut off, as Spark does.
    time, zone = _extract(sql, _TIME), _extract(sql, _TIME, 2)
    return f"TRY_CAST({time} || CASE {zone} WHEN 'UTC' THEN 'Z' ELSE {zone} END AS TIMESTAMPTZ)"


def _to_text(sql: str, value: Term) -> str:
    if value.type.name == "DOUBLE":
        raise DefinitionError(
            f"a computed field cannot write a DOUBLE as text ({render(value)}): engines spell it differently",
            fix="CAST it to a DECIMAL first",
        )
    if value.type == TIMESTAMP:
        return f"CAST(CAST({sql} AS TIMESTAMP) AS VARCHAR)"
    return f"CAST({sql} AS VARCHAR)"


def _extract(sql: str, pattern: str, group: int = 1) -> str:
    return f"regexp_extract({sql}, {literal(pattern)}, {group})"


def _name(type_: Type) -> str:
    return {"INT": "INTEGER", "TIMESTAMP": "TIMESTAMPTZ"}.get(type_.name, str(type_))


DIVISION = "DECIMAL /"
MOST_DIGITS = 38  # of a DECIMAL, and of a HUGEINT


def with_divisions(term: Term) -> Term:
    """The term with those divisions of DECIMALs that DuckDB computes exactly as Spark does."""
    term = replace(term, args=tuple(map(with_divisions, term.args)))
    return replace(term, op=DIVISION) if term.op == "/" and _is_exact(term) else term


def _is_exact(term: Term) -> bool:
    """Whether all numbers on the way have at most 38 digits."""
    of = term.type
    if of.name != "DECIMAL" or not all(arg.type.is_integer or arg.type.name == "DECIMAL" for arg in term.args):
        return False
    left, right = (as_decimal(arg.type) for arg in term.args)
    digits = (
        left.precision + _shift(term) + 1,
        *(side.precision + side.scale + 2 for side in (left, right)),
        of.precision + of.scale,
        # Spark rounds to 38 digits first: a quotient of so few digits is not made a half by that.
        of.scale + right.precision + 2,
    )
    # Of a result that needs more digits, Spark would leave some out.
    return _shift(term) >= 0 and of.precision < MOST_DIGITS and max(digits) <= MOST_DIGITS


def _shift(term: Term) -> int:
    left, right = (as_decimal(arg.type) for arg in term.args)
    return term.type.scale + right.scale - left.scale


def division_sql(term: Term, args: list[str]) -> str:
    """DuckDB's SQL: half of the divisor is added, away from zero, before a division that leaves out the fraction."""
    of = term.type
    left, right = (_whole(sql, arg) for sql, arg in zip(args, term.args, strict=True))
    half = f"sign({left}) * abs({right})"
    whole = f"(2 * {left} * {10 ** _shift(term)} + {half}) // (2 * nullif({right}, 0))"
    unit = f"CAST(0.{'1':0>{of.scale}} AS DECIMAL({of.scale}, {of.scale}))"
    return f"CAST(CAST({whole} AS DECIMAL({of.precision}, 0)) * {unit} AS DECIMAL({of.precision}, {of.scale}))"


def _whole(sql: str, term: Term) -> str:
    """A number without its decimal point."""
    scale = term.type.scale
    if not scale:
        return f"CAST({sql} AS HUGEINT)"
    return f"CAST(CAST({sql} AS DECIMAL({MOST_DIGITS}, {scale})) * {10**scale} AS HUGEINT)"


LARGEST = {"INT": 2**31 - 1, "BIGINT": 2**63 - 1}
# Arithmetic by functions that DuckDB's optimizer leaves as they are.
KEPT = {"+": "add", "-": "subtract", "*": "multiply"}
WRAP = "wrap "  # before an operator
WRAPPED = ("+", "-", "*", "DIV", "abs")


def keep_arithmetic(term: Term, *, unless_limited: bool = False) -> Term:
    """The term with comparisons that fail where their arithmetic overflows.

    With `unless_limited`, those are left to DuckDB that `limits_of` gives a limit for.
    """
    args = [keep_arithmetic(arg, unless_limited=unless_limited) for arg in term.args]
    if _compares(term):
        args = [arg if unless_limited and _limit(arg) else _kept(arg) for arg in args]
    return replace(term, args=tuple(args))


def wrap_arithmetic(term: Term) -> Term:
    """The term with integer arithmetic that wraps around in DuckDB as it does in Spark."""
    args = tuple(map(wrap_arithmetic, term.args))
    wraps = term.op in WRAPPED and term.type.is_integer
    return replace(term, op=f"{WRAP}{term.op}" if wraps else term.op, args=args)


def wrapped_sql(term: Term, args: list[str]) -> str:
    """DuckDB's SQL of a term that wraps around: computed in 128 bits, of which the lowest count."""
    wide = [f"CAST({arg} AS HUGEINT)" for arg in args]
    op = term.op.removeprefix(WRAP)
    if len(wide) == 1:
        value = f"abs({wide[0]})" if op == "abs" else f"-{wide[0]}"
    else:
        value = f"{wide[0]} // nullif({wide[1]}, 0)" if op == "DIV" else f"{wide[0]} {op} {wide[1]}"
    half = LARGEST[term.type.name] + 1
    lowest = f"({value} + {half}) & CAST({2 * half - 1} AS HUGEINT)"
    return f"CAST(({lowest}) - {half} AS {'INTEGER' if term.type.name == 'INT' else 'BIGINT'})"


def limits_of(term: Term) -> Iterator[tuple[str, int]]:
    """Columns, each with the largest magnitude for which arithmetic over it in a comparison does not overflow."""
    if _compares(term):
        yield from (limit for arg in term.args if (limit := _limit(arg)))
    for arg in term.args:
        yield from limits_of(arg)


def _compares(term: Term) -> bool:
    return LEVELS.get(term.op) == COMPARISON or term.op in ("IN", "BETWEEN")


def _kept(term: Term) -> Term:
    if "CAST" in term.op:
        return replace(term, args=(_kept(term.args[0]),))
    return replace(term, op=KEPT[term.op]) if _is_arithmetic(term) else term


def _is_arithmetic(term: Term) -> bool:
    return term.op in KEPT and len(term.args) == 2 and term.type.is_integer


def _limit(term: Term) -> tuple[str, int] | None:
    """The column of arithmetic over one column and constants, and the limit; None for all other terms."""
    if not _is_arithmetic(term):
        return None
    names = {part.text for part in _leaves(term) if part.op == "field"}
    factor, added = _magnitude(term) or (0, 0)
    if len(names) != 1 or not factor:
        return None
    (name,), largest = names, min(LARGEST[part.type.name] for part in _nodes(term))
    return (name, (largest - added) // factor) if added < largest else None


def _magnitude(term: Term) -> tuple[int, int] | None:
    """(f, c), such that no part of a term is larger than f times the magnitude of its column, plus c."""
    if term.op == "field" and term.type.is_integer:
        return 1, 0
    if term.is_literal and term.type.is_integer:
        return 0, abs(int(term.text.rstrip("L")))
    if not _is_arithmetic(term):
        return None
    left, right = map(_magnitude, term.args)
    if left is None or right is None:
        return None
    if term.op != "*":
        return left[0] + right[0], left[1] + right[1]
    if left[0] and right[0]:
        return None
    (factor, added), (_, constant) = (left, right) if left[0] else (right, left)
    return factor * max(constant, 1), added * max(constant, 1)


def _nodes(term: Term) -> Iterator[Term]:
    if _is_arithmetic(term):
        yield term
        for arg in term.args:
            yield from _nodes(arg)


def _leaves(term: Term) -> Iterator[Term]:
    if not term.args:
        yield term
    for arg in term.args:
        yield from _leaves(arg)
