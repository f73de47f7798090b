"""The expressions of a view as DuckDB runs them in the fused lane, where its value has to be Spark's.

Where DuckDB would compute another value than Spark, either the expression has no DuckDB face, or its evaluation fails:
then Spark computes the view's partials of that commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from headrace.define.expression.check import Checker, Scope, parse_tree
from headrace.define.expression.computed import OR_FAIL, SAME_CASE, duckdb_type, translate
from headrace.define.expression.terms import Term
from headrace.define.model import Stream, View
from headrace.define.tokens import Source
from headrace.errors import DefinitionError
from headrace.types import DOUBLE, Expression, Type

CASTS = ("CAST", "TRY_CAST")
MOST_PLAIN_SCALE = 6  # Spark writes DECIMALs of a larger scale with an exponent
MOST_EXACT_DIGITS = 15  # of a DECIMAL that is a DOUBLE without rounding twice


@lru_cache(maxsize=1024)  # each commit needs them
def duckdb_face(stream: Stream, view: View) -> View:
    """The view with its expressions in DuckDB's SQL. Raises DefinitionError if one of them has no DuckDB face."""
    types = stream.types()

    def of(expression: Expression) -> Expression:
        return Expression(face_of(expression, types), expression.type)

    return replace(
        view,
        where=of(view.where) if view.where else None,
        keys=tuple(replace(key, expression=of(key.expression)) for key in view.keys),
        columns=tuple(
            replace(
                column,
                aggregate=replace(
                    column.aggregate,
                    arguments=tuple(map(of, column.aggregate.arguments)),
                    where=of(column.aggregate.where) if column.aggregate.where else None,
                ),
            )
            for column in view.columns
        ),
    )


def face_of(expression: Expression, types: Mapping[str, Type]) -> str:
    """DuckDB's SQL of an expression over fields of these types."""
    source = Source(expression.sql)
    term = Checker(source, Scope(types)).term(parse_tree(source))
    for part in _parts(term):
        reason = _inexact(part)
        if reason:
            raise DefinitionError(f"{reason} has no DuckDB face", fix="Spark computes the view")
    return f"CAST({translate(_strict(term))} AS {duckdb_type(expression.type)})"


def _parts(term: Term) -> Iterator[Term]:
    yield term
    for arg in term.args:
        yield from _parts(arg)


def _inexact(term: Term) -> str | None:
    """What DuckDB computes differently without an error."""
    if term.op in ("to_date", "to_timestamp") and term.args[0].type.name == "STRING":
        return f"{term.op} of a STRING"
    if term.op == "ILIKE":
        return "ILIKE"
    if term.op in CASTS:
        source, to = term.args[0].type, term.type
        if _differs(source, to) or (term.op == "TRY_CAST" and _narrows(source, to)):
            return f"{term.op} of {source} AS {to}"
    mixed = [arg.type for arg in term.args]
    if DOUBLE in mixed and any(of.name == "DECIMAL" and of.precision > MOST_EXACT_DIGITS for of in mixed):
        return f"{term.op} of a DOUBLE and a DECIMAL"
    return None


def _differs(source: Type, to: Type) -> bool:
    if source.name == "STRING":  # each engine knows other spellings of numbers and times
        return to.name not in ("STRING", "BOOLEAN")
    if source.name == "DECIMAL":
        wide = to == DOUBLE and source.precision > MOST_EXACT_DIGITS
        return wide or (to.name == "STRING" and source.scale > MOST_PLAIN_SCALE)
    return source == DOUBLE and to.name == "DECIMAL"


def _narrows(source: Type, to: Type) -> bool:
    return to.is_integer and source.is_numeric and source != to


def _strict(term: Term) -> Term:
    """The term, with functions that fail where DuckDB's value would differ from Spark's."""
    term = replace(term, args=tuple(map(_strict, term.args)))
    if term.op in ("lower", "upper"):
        return replace(term, op=f"{SAME_CASE}{term.op}")
    if term.op == "CAST" and _narrows(term.args[0].type, term.type):
        return replace(term, op=OR_FAIL)
    return term
