"""The expressions of a view as DuckDB runs them in the fused lane, where its value has to be Spark's.

Where DuckDB would compute another value than Spark, either it does not run the expression, or its evaluation fails:
then Spark computes the view's partials of that commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from headrace.define.model import Column, Key, Stream, View
from headrace.engine.duckdb_terms import OR_FAIL, SAME_CASE, duckdb_type, refuse_computed, translate
from headrace.engine.duckdb_values import MOST_DIGITS, keep_arithmetic, with_divisions, wrap_arithmetic
from headrace.engine.value_bounds import shorten_duckdb
from headrace.errors import DefinitionError
from headrace.language.coercion import as_decimal
from headrace.language.terms import Expression, Term, render
from headrace.types import DOUBLE, Type

CASTS = ("CAST", "TRY_CAST")
MOST_PLAIN_SCALE = 6  # Spark writes DECIMALs of a larger scale with an exponent
MOST_EXACT_DIGITS = 15  # of a DECIMAL that is a DOUBLE without rounding twice
MOST_TEXT = 80  # characters of an expression in a reason


@lru_cache(maxsize=1024)
def duckdb_view(stream: Stream, view: View) -> View:
    """The view with its expressions in DuckDB's SQL, over the rows that its relation makes of a base stream.

    Raises DefinitionError if only Spark computes a part of it.
    """
    types = view.rows_of(stream).types()
    translate_one = duckdb_expression if view.over is None else _only_duckdb_expression

    def of(place: str, expression: Expression) -> Expression:
        try:
            return Expression.raw(translate_one(expression, types), expression.type)
        except DefinitionError as error:
            raise DefinitionError(f"{place}: {error.message}") from error

    def key_of(key: Key) -> Key:
        place = f"key '{key.name}'"
        if not has_equal_text(key.expression.type):
            raise DefinitionError(f"{place}: only Spark computes keys of type {key.expression.type}")
        translated = of(place, key.expression)
        return replace(key, expression=Expression.raw(shorten_duckdb(translated.sql, translated.type), translated.type))

    def column_of(column: Column) -> Column:
        place, aggregate = f"column '{column.name}'", column.aggregate
        if not aggregate.runs_in_duckdb:
            raise DefinitionError(f"{place}: only Spark computes {aggregate.name}()")
        arguments = tuple(of(place, argument) for argument in aggregate.arguments)
        where = of(place, aggregate.where) if aggregate.where else None
        return replace(column, aggregate=replace(aggregate, arguments=arguments, where=where))

    return replace(
        view,
        where=of("WHERE", view.where) if view.where else None,
        keys=tuple(map(key_of, view.keys)),
        columns=tuple(map(column_of, view.columns)),
        window=replace(view.window, gap=of("the gap", view.window.gap) if view.window.gap else None)
        if view.window
        else None,
    )


def has_equal_text(of: Type) -> bool:
    """Whether both engines write values of a type as the same text: ids of keys are made of it."""
    if of.name == "DECIMAL":
        return of.scale <= MOST_PLAIN_SCALE
    return of.name in ("STRING", "BOOLEAN", "INT", "BIGINT", "DATE")


def duckdb_expression(expression: Expression, types: Mapping[str, Type], *, within_limits: bool = False) -> str:
    """DuckDB's SQL of an expression over fields of these types. Raises DefinitionError if only Spark computes it.

    With `within_limits`, no field has a value beyond its limit (`overflow.limits_of`).
    """
    term = with_divisions(expression.over(types))
    for part in reversed(list(parts_of(term))):  # the innermost first: it is the shortest
        if (text := _spark_only(part)) is not None:
            raise DefinitionError(f"only Spark computes {text}")
    term = keep_arithmetic(_strict(term), unless_limited=within_limits)
    return f"CAST({translate(term)} AS {duckdb_type(expression.type)})"


def _only_duckdb_expression(expression: Expression, types: Mapping[str, Type]) -> str:
    """The same where DuckDB is the only engine: no other computes what fails here, so that nothing may fail."""
    term = expression.over(types)
    for part in reversed(list(parts_of(term))):
        text = _spark_only(part)
        if text is None and part.op == "CAST" and _narrows(part.args[0].type, part.type):
            text = render(part)
        if text is not None:
            raise DefinitionError(f"only Spark computes {text}")
    return f"CAST({translate(wrap_arithmetic(term))} AS {duckdb_type(expression.type)})"


def parts_of(term: Term) -> Iterator[Term]:
    """The term, and all that it contains."""
    yield term
    for arg in term.args:
        yield from parts_of(arg)


def _spark_only(term: Term) -> str | None:
    """The term as text if DuckDB cannot compute it, or would compute another value without an error; else None."""
    text = render(term)
    text = text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
    if term.op in CASTS:
        source, to = term.args[0].type, term.type
        if _differs(source, to) or (term.op == "TRY_CAST" and _narrows(source, to)):
            return f"{text} from {source}"
    types = [arg.type for arg in term.args]
    if DOUBLE in types and any(of.name == "DECIMAL" and of.precision > MOST_EXACT_DIGITS for of in types):
        return f"{text} of a DOUBLE and a DECIMAL"
    if term.op in ("%", "mod") and not _have_common_decimal(types):
        return f"{text} of such long DECIMALs"
    reads_time = term.op in ("to_date", "to_timestamp") and types[0].name == "STRING" and len(types) == 1
    return text if reads_time or term.op == "ILIKE" or refuse_computed(term) else None


def _have_common_decimal(types: Sequence[Type]) -> bool:
    """Whether one DECIMAL holds the values of all of these exactly; DuckDB would compute with DOUBLEs otherwise."""
    decimals = [as_decimal(of) for of in types if of.is_integer or of.name == "DECIMAL"]
    whole = max((each.precision - each.scale for each in decimals), default=0)
    return whole + max((each.scale for each in decimals), default=0) <= MOST_DIGITS


def _differs(source: Type, to: Type) -> bool:
    if source.name == "STRING":  # each engine knows other spellings of numbers and times
        return to.name not in ("STRING", "BOOLEAN")
    if source.name == "DECIMAL":
        wide = to == DOUBLE and source.precision > MOST_EXACT_DIGITS
        return wide or (to.name == "STRING" and source.scale > MOST_PLAIN_SCALE)
    return source == DOUBLE and to.name in ("DECIMAL", "STRING")


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
