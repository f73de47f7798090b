"""The expressions of a view as Spark runs them: times are limited to the years 1 to 9999, patterns are replaced.

A pattern of texts or times, or a call of a function of the workspace, becomes a column that workers compute, as for
computed fields: Java's regular expressions recurse, and a text with a year such as +999999 would fail a job of Spark's
to_timestamp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from headrace.define.model import Stream, View
from headrace.engine.duckdb_terms import PATTERNS, translate
from headrace.engine.value_bounds import BOUNDS, TIMES, YEARS_US, makes_time, makes_times, shorten_spark
from headrace.errors import DefinitionError
from headrace.language.source_text import escape
from headrace.language.terms import Expression, Term, render
from headrace.language.user_functions import UserFunction, find_function
from headrace.types import BOOLEAN, STRING, Type

TEXT = "text"
# Spark fails if these overflow, so the number is checked before the call, not the time after it.
EPOCHS = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1_000}


@dataclass(frozen=True)
class PatternColumn:
    """A column with the result of a pattern on a text."""

    name: str
    text: str  # Spark SQL, over the fields and the columns before it
    duckdb: str  # DuckDB's SQL over the column `text`
    type: Type


@dataclass(frozen=True)
class UdfColumn:
    """A column with the result of a function of the workspace."""

    name: str
    function: UserFunction
    arguments: tuple[str, ...]  # Spark SQL, over the fields and the columns before it


Computed = PatternColumn | UdfColumn


@dataclass(frozen=True)
class SparkView:
    """A view whose expressions Spark runs as they are, on rows that have the computed columns."""

    view: View
    computed: tuple[Computed, ...]


@lru_cache(maxsize=1024)  # each step needs them
def spark_view(stream: Stream, view: View) -> SparkView:
    """A view over a stream as Spark runs it."""
    writer = _Writer(stream.types(), unsure_times(stream))
    translated = replace(
        view,
        where=writer.expression(view.where),
        keys=tuple(replace(key, expression=writer.key(key.expression)) for key in view.keys),
        columns=tuple(
            replace(
                column,
                aggregate=replace(
                    column.aggregate,
                    arguments=tuple(map(writer.required, column.aggregate.arguments)),
                    where=writer.expression(column.aggregate.where),
                ),
            )
            for column in view.columns
        ),
        window=replace(view.window, gap=writer.expression(view.window.gap)) if view.window else None,
    )
    return SparkView(translated, tuple(writer.computed.values()))


def unsure_times(stream: Stream) -> frozenset[str]:
    """Fields that may hold times of any year: an older release may have written these into a computed field."""
    computed = (field for field in stream.fields if field.computed and field.name != stream.event_time)
    return frozenset(field.name for field in computed if field.type.name in TIMES)


def for_spark(
    expressions: Sequence[Expression], types: Mapping[str, Type], unsure: frozenset[str] = frozenset()
) -> tuple[list[Expression], tuple[Computed, ...]]:
    """Expressions over fields of these types as Spark runs them, and the columns that they need.

    `unsure` are those of the fields that may hold times of any year.
    """
    writer = _Writer(types, unsure)
    return [writer.required(expression) for expression in expressions], tuple(writer.computed.values())


class _Writer:
    def __init__(self, types: Mapping[str, Type], unsure: frozenset[str]) -> None:
        self._types = types
        self._unsure = unsure
        self.computed: dict[tuple[str, str], Computed] = {}

    def expression(self, expression: Expression | None) -> Expression | None:
        return self.required(expression) if expression else None

    def key(self, expression: Expression) -> Expression:
        """A key of a view; one that is too long is shortened."""
        translated = self.required(expression)
        return Expression.raw(shorten_spark(translated.sql, translated.type), translated.type)

    def required(self, expression: Expression) -> Expression:
        try:
            term = expression.over(self._types)
        except DefinitionError as e:  # an older release accepted it; its place is not in a file
            raise DefinitionError(e.message, found=e.found, expected=e.expected, fix=e.fix) from e
        return Expression(self._term(term), expression.type)

    def _term(self, term: Term) -> Term:
        nested = makes_times(term)
        term = replace(term, args=tuple(self._term(arg) for arg in term.args))
        if term.op in PATTERNS:
            return self._match_column(term)
        function = find_function(term.op)
        if function:
            return self._own_column(term, function)
        if term.op in ("to_date", "to_timestamp") and len(term.args) > 1 and term.args[0].type == STRING:
            return self._match_column(term)
        if term.op == "parse_url" and len(term.args) > 2:
            return replace(term, args=(*term.args[:2], Term("sql", STRING, text=_quoted(render(term.args[2])))))
        if term.op in EPOCHS:
            first, last = (f"{bound // EPOCHS[term.op]}L" for bound in YEARS_US)
            number = Term("sql", term.args[0].type, text=_within(render(term.args[0]), first, last, once=nested))
            return replace(term, args=(number,))
        if makes_time(term) or (term.op == "field" and term.text in self._unsure):
            return Term("sql", term.type, text=_within(render(term), *BOUNDS[term.type.name], once=nested))
        return term

    def _match_column(self, term: Term) -> Term:
        text = render(term.args[0])
        duckdb = translate(replace(term, args=(Term("field", STRING, text=TEXT), *term.args[1:]), negated=False))
        name = f"_match_{len(self.computed)}"
        match = self.computed.setdefault((text, duckdb), PatternColumn(name, text, duckdb, term.type))
        column = Term("field", term.type, text=match.name)
        return Term("NOT", BOOLEAN, (column,)) if term.negated else column

    def _own_column(self, term: Term, function: UserFunction) -> Term:
        arguments = tuple(map(render, term.args))
        name = f"_own_{len(self.computed)}"
        call = self.computed.setdefault((term.op, ", ".join(arguments)), UdfColumn(name, function, arguments))
        return Term("field", term.type, text=call.name)


def _quoted(key: str) -> str:
    """Spark reads the key of a URL as a pattern: an invalid one would fail the job."""
    start, end, inside = (escape(text) for text in (r"\Q", r"\E", r"\E\\E\Q"))
    return f"concat({start}, replace({key}, {end}, {inside}), {end})"


def _within(sql: str, first: str, last: str, *, once: bool) -> str:
    """SQL for the value, NULL outside of the bounds; with `once`, `sql` occurs once: nested, it would grow too long."""
    if once:
        return f"filter(array({sql}), _t -> _t BETWEEN {first} AND {last})[0]"
    return f"CASE WHEN {sql} BETWEEN {first} AND {last} THEN {sql} END"
