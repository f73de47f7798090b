"""Integer arithmetic in comparisons, which DuckDB would leave out: of `a + 9 < 1` it makes `a < -8`.

Where the sum overflows, Spark's wraps around. So DuckDB has to compute it and to fail, unless no value is so large.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.define.expression.terms import COMPARISON, LEVELS, Term

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
