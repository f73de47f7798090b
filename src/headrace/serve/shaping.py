"""Shapes the rows of an answer: expressions over aggregates, HAVING, ORDER BY.

Partials are merged and presented first; what a view or a question says about its rows applies to the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from headrace.aggregate import Aggregate, Value
from headrace.define.answer_shape import ShapeReader, ShapeScope
from headrace.define.fingerprint import aggregate_id
from headrace.define.model import ARRIVED, BOUNDS, Order, View
from headrace.define.outputs import outputs_of
from headrace.define.sampling import share_of
from headrace.engine.duckdb_views import duckdb_expression
from headrace.engine.python_evaluation import Evaluate, Types, compile_expression
from headrace.errors import DefinitionError, QuestionError
from headrace.language.check import Scope
from headrace.language.expressions import parse_tree
from headrace.language.source_text import SourceText, each
from headrace.language.statements.create_view import read_order_text
from headrace.language.terms import Expression
from headrace.serve.presentation import window_columns
from headrace.serve.question import Question
from headrace.store.selection import rank
from headrace.store.version import Version
from headrace.types import BOOLEAN, TIMESTAMP, Type

Row = tuple[Any, ...]
LONGEST = 4_000  # characters of having and order_by


@dataclass(frozen=True)
class Computed:
    """An expression over presented rows."""

    evaluate: Evaluate
    type: Type
    sql: str | None  # the same in DuckDB's SQL, which may fail where the value would differ; None: there is none

    @classmethod
    def of(cls, expression: Expression, types: Types) -> Computed:
        """An expression over the values of a row, which have these names and types."""
        try:
            sql = duckdb_expression(expression, dict(types))
        except DefinitionError:
            sql = None
        return cls(compile_expression(expression, types), expression.type, sql)


@dataclass(frozen=True)
class Ordering:
    """An item of ORDER BY over presented rows."""

    by: Computed
    descending: bool
    nulls_first: bool

    @property
    def direction(self) -> str:
        """As SQL writes it."""
        return f"{'DESC' if self.descending else 'ASC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"

    def sort(self, values: Sequence[tuple[Value, int]]) -> list[int]:
        """The indexes in the order of their values; it is stable, so the last item of ORDER BY is applied first."""
        nulls = [at for value, at in values if value is None]
        known = [(rank(value), at) for value, at in values if value is not None]
        ordered = [at for _, at in sorted(known, key=lambda pair: pair[0], reverse=self.descending)]
        return nulls + ordered if self.nulls_first else ordered + nulls


@dataclass(frozen=True)
class Shaping:
    """What is made of rows of (group keys, window columns, aggregates, settled)."""

    first: int  # the index of the first aggregate
    columns: int  # the number of aggregates
    types: Types  # the names and types of the values of a row in expressions
    missing: int  # the last of them are keys that the question merges: they are NULL, as in GROUPING SETS
    outputs: tuple[tuple[str, Computed | int], ...] | None  # computed from the row, or the index of an aggregate
    having: Computed | None
    order: tuple[Ordering, ...]
    used: frozenset[int]  # the places of the row that HAVING, ORDER BY and outputs compute with
    decisive: frozenset[int]  # those that HAVING and ORDER BY compute with

    @property
    def filters_or_orders(self) -> bool:
        """Whether other rows than those of a page decide what is on it."""
        return self.having is not None or bool(self.order)

    def select(self, rows: Sequence[Row]) -> list[int]:
        """The indexes of the rows that HAVING keeps, in the order of ORDER BY; equals stay in their order."""
        rows, having = self.rows(rows), self.having
        kept = list(range(len(rows))) if having is None else [at for at, row in enumerate(rows) if having.evaluate(row)]
        for item in reversed(self.order):
            kept = item.sort([(item.by.evaluate(rows[at]), at) for at in kept])
        return kept

    def rows(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows as expressions take them: followed by the keys that the question merges."""
        return [self._extended(row) for row in rows] if self.missing else rows

    def _extended(self, row: Row) -> Row:
        return (*row[: self.first + self.columns + 1], *[None] * self.missing)

    def compute(self, row: Row) -> Row:
        """The row with the outputs in place of the aggregates."""
        if self.outputs is None:
            return row
        extended = self._extended(row) if self.missing else row
        values = [row[by] if isinstance(by, int) else by.evaluate(extended) for _, by in self.outputs]
        return (*row[: self.first], *values, *row[self.first + self.columns :])

    def result_columns(self, columns: Sequence[tuple[str, Type]]) -> tuple[tuple[str, Type], ...]:
        """The columns of an answer, from those of its presented rows."""
        if self.outputs is None:
            return tuple(columns)
        outputs = [(name, columns[by][1] if isinstance(by, int) else by.type) for name, by in self.outputs]
        return (*columns[: self.first], *outputs, *columns[self.first + self.columns :])


@dataclass(frozen=True)
class _Known:
    """A view that is found again by its fingerprint: its own hash would take longer than an answer."""

    fingerprint: str
    view: View = field(hash=False)


def find_shaping(question: Question, version: Version, by: tuple[str, ...]) -> Shaping | None:
    """What is made of the rows of a question; None if they are the answer as they are."""
    view = version.view
    if view.shape is None and not question.having and not question.order_by:
        return None
    make = _cached if version.fingerprint else _make
    return make(_Known(version.fingerprint, view), by, question.having, question.order_by)


def _make(known: _Known, by: tuple[str, ...], having: str | None, order_by: str | None) -> Shaping:
    view = known.view
    merged = [key for key in view.keys if key.name not in by]
    types = _row_types(view, by) + tuple((key.name, key.expression.type) for key in merged)
    first = len(by) + len(window_columns(view))
    shape = view.shape
    condition = _read_having(view, having) if having is not None else shape.having if shape else None
    order = _read_order(view, order_by) if order_by is not None else shape.order if shape else ()
    if condition:
        _refuse_merged(condition, view, [key.name for key in merged], own=having is None)
    places = {aggregate_id(column.aggregate): first + at for at, column in enumerate(view.columns)}
    decisive = [*([condition] if condition else []), *(item.expression for item in order)]
    outputs = [each.expression for each in shape.outputs if each.expression.sql not in places] if shape else []
    computed = partial(Computed.of, types=types)
    return Shaping(
        first=first,
        columns=len(view.columns),
        types=types,
        missing=len(merged),
        outputs=tuple(
            (each.name, places[each.expression.sql] if each.expression.sql in places else computed(each.expression))
            for each in shape.outputs
        )
        if shape and (shape.outputs or shape.only_keys)
        else None,
        having=computed(condition) if condition else None,
        order=tuple(Ordering(computed(item.expression), item.descending, item.nulls_first) for item in order),
        used=_places([*decisive, *outputs], types),
        decisive=_places(decisive, types),
    )


def _places(expressions: Sequence[Expression], types: Sequence[tuple[str, Type]]) -> frozenset[int]:
    names = frozenset[str]().union(*(expression.fields() for expression in expressions))
    return frozenset(place for place, (name, _) in enumerate(types) if name in names)


_cached = lru_cache(maxsize=256)(_make)


def _row_types(view: View, by: tuple[str, ...]) -> tuple[tuple[str, Type], ...]:
    """The names that expressions use for the values of a presented row, in its order."""
    keys = {key.name: key.expression.type for key in view.keys}
    # Expressions know the bounds only as window_start and window_end; further names of them stand beside.
    bounds = [(name if name in BOUNDS else f"{name} again", TIMESTAMP) for name, _ in window_columns(view)]
    columns = [(aggregate_id(column.aggregate), column.aggregate.spark_type) for column in view.columns]
    return (*((name, keys[name]) for name in by), *bounds, *columns, ("settled", BOOLEAN))


def _scope(view: View) -> ShapeScope:
    """What having and order_by of a question may name; outputs come first."""
    events = Scope({**dict(view.reads), ARRIVED: TIMESTAMP}, f"what view '{view.name}' reads", view.streams)
    scope = ShapeScope(events, view.keys, view.window, list(view.columns), f"view '{view.name}'", may_add=False)
    types = dict(_row_types(view, tuple(key.name for key in view.keys)))
    for output in outputs_of(view):
        scope.name(output.name, output.expression.over(types))
    return scope


def _read_having(view: View, text: str) -> Expression | None:
    if not text.strip():
        return None
    source = _source("having", text)
    try:
        return ShapeReader(_scope(view)).having(source, parse_tree(source))
    except DefinitionError as error:
        raise _as_question("having", error) from error


def _read_order(view: View, text: str) -> tuple[Order, ...]:
    if not text.strip():
        return ()
    source = _source("order_by", text)
    try:
        reader = ShapeReader(_scope(view))
        return tuple(reader.order(source, item) for item in read_order_text(source))
    except DefinitionError as error:
        raise _as_question("order_by", error) from error


def _source(name: str, text: str) -> SourceText:
    if len(text) > LONGEST:
        raise QuestionError(f"{name} is too long", found=f"{len(text):,} characters", expected=f"at most {LONGEST:,}")
    return SourceText(text)


def _as_question(name: str, error: DefinitionError) -> QuestionError:
    error = each(error)[0]
    return QuestionError(f"{name}: {error.message}", found=error.found, expected=error.expected, fix=error.fix)


def _refuse_merged(condition: Expression, view: View, merged: Sequence[str], *, own: bool) -> None:
    used = condition.fields()
    for name in merged:
        if name in used:
            whose = f"HAVING of view '{view.name}'" if own else "having"
            raise QuestionError(
                f"{whose} names the key '{name}', which the query merges",
                fix="keep the key in by" + (", or ask with having='', or another condition" if own else ""),
            )


Estimates = Mapping[Aggregate, Sequence[int]]  # of aggregates that may be exact: the rows where they are not


def estimated_rows(view: View, estimates: Estimates) -> dict[str, tuple[int, ...]]:
    """The rows in which outputs are estimates, of those outputs that may be exact in others."""
    rows = {aggregate_id(aggregate): places for aggregate, places in estimates.items() if places}
    never = {
        aggregate_id(c.aggregate) for c in view.columns if c.aggregate.approximate and not c.aggregate.may_be_exact
    }
    estimated = {}
    for output in outputs_of(view) if rows else ():
        names = output.expression.fields()
        used = rows.keys() & names
        if used and not names & never:
            estimated[output.name] = tuple(sorted({place for name in used for place in rows[name]}))
    return estimated


def stated_bounds(
    view: View, bounds: Mapping[Aggregate, tuple[float | None, ...]]
) -> dict[str, tuple[float | None, ...]]:
    """The bounds of outputs that are aggregates with bounds; expressions over them have none."""
    by_id = {aggregate_id(aggregate): of for aggregate, of in bounds.items()}
    return {each.name: by_id[each.expression.sql] for each in outputs_of(view) if each.expression.sql in by_id}


def stated_errors(view: View, estimates: Estimates | None = None) -> dict[str, str]:
    """The stated error of each approximate output; of an expression, those of the aggregates in it.

    With the `estimates` of an answer, those that are exact in all of its rows have none. Of a sample, aggregates that
    cannot be scaled to all events are said to be of the sample.
    """
    stated = _stated_errors(view, estimates)
    share = share_of(view.relation)
    if share is None:
        return stated
    whole = f"of {share}, not scaled"
    scaled = {aggregate_id(column.aggregate) for column in view.columns if column.aggregate.has_bounds}
    aggregates = {aggregate_id(column.aggregate) for column in view.columns}
    for output in outputs_of(view):
        used = aggregates & output.expression.fields()
        if used - scaled:
            stated[output.name] = f"{stated[output.name]}; {whole}" if output.name in stated else whole
    return stated


def _stated_errors(view: View, estimates: Estimates | None) -> dict[str, str]:
    approximate = [c.aggregate for c in view.columns if c.aggregate.approximate]
    if estimates is not None:
        approximate = [aggregate for aggregate in approximate if estimates.get(aggregate, True)]
    errors = {aggregate_id(aggregate): aggregate for aggregate in approximate}
    if not errors:
        return {}
    stated: dict[str, str] = {}
    for output in outputs_of(view):
        sql = output.expression.sql
        if sql in errors:
            stated[output.name] = errors[sql].approximate or ""
            continue
        used = [errors[name] for name in sorted(output.expression.fields() & errors.keys())]
        if used:
            stated[output.name] = "; ".join(f"of {aggregate.sql}: {aggregate.approximate}" for aggregate in used)
    return stated
