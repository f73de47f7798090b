"""Divisions of DECIMALs by DuckDB, whose own `/` gives a DOUBLE: whole numbers are divided, and rounded as by Spark."""

from __future__ import annotations

from dataclasses import replace

from headrace.define.expression.coercion import as_decimal
from headrace.define.expression.terms import Term

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
