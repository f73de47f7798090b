"""Makes fewer steps of a chain of filters and projections: of ten that follow each other, often one of each.

The engines call it when they write a query. What is stored of a view keeps its steps as they were defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from headrace.define.expression.check import Checker, Scope, parse_tree
from headrace.define.expression.terms import COMPARISON, LEVELS, Term, render
from headrace.define.model import ARRIVED
from headrace.define.relation import Branch, Explode, Filter, Join, Map, Project, RowStep
from headrace.define.tokens import Source
from headrace.errors import DefinitionError
from headrace.types import BOOLEAN, DOUBLE, INT, TIMESTAMP, Expression, Type

LONGEST = 300  # characters of an expression that is written in place of the name of its column
ARITHMETIC = ("+", "-", "*")
LOGIC = ("AND", "OR", "NOT", "IS NULL", "IS TRUE", "IS FALSE", "BETWEEN", "IN")
NOT_SIMPLE = ("DECIMAL", "ARRAY", "MAP", "STRUCT")  # the type of DECIMAL arithmetic depends on which side is a constant


@lru_cache(maxsize=1024)  # each commit needs it
def composed(branch: Branch) -> Branch:
    """The branch with the same rows in fewer steps."""
    try:
        return replace(branch, steps=tuple(_steps(branch)))
    except DefinitionError:  # an older release accepted an expression: the engines say what is wrong with it
        return branch


def is_simple(term: Term) -> bool:
    """Whether a term costs so little that it may be computed twice, or for rows that another condition leaves out."""
    if term.type.name in NOT_SIMPLE:
        return False
    if term.op in ARITHMETIC:
        of_numbers = term.type.is_integer or term.type == DOUBLE
        return of_numbers and all(arg.type.is_numeric and is_simple(arg) for arg in term.args)
    if term.op in LOGIC or LEVELS.get(term.op) == COMPARISON:
        return all(map(is_simple, term.args))
    return term.op in ("field", "literal")


def term_of(expression: Expression, types: Mapping[str, Type]) -> Term:
    """The term of an expression over columns of these types."""
    source = Source(expression.sql)
    return Checker(source, Scope({**types, ARRIVED: TIMESTAMP})).term(parse_tree(source))


def _steps(branch: Branch) -> Iterator[RowStep]:
    part = _Part(dict(branch.reads))
    for step in branch.steps:
        if not isinstance(step, Filter | Project):
            yield from part.steps()
            yield step
            part = _Part(_types_after(part.types_after(), step))
            continue
        longer = part.with_step(step)
        if longer is None:
            yield from part.steps()
            longer = _Part(part.types_after()).with_step(step)
            assert longer is not None, "a part begins with any step"
        part = longer
    yield from part.steps()


@dataclass(frozen=True)
class _Part:
    """Filters, and a projection after them, over rows of these types."""

    types: Mapping[str, Type]
    filters: tuple[tuple[Term, ...], ...] = ()  # one after the other; the conditions of one are simple, or it has one
    columns: tuple[tuple[str, Expression, Term], ...] | None = None  # each as it was defined, and over `types`

    def types_after(self) -> Mapping[str, Type]:
        """The columns of its rows."""
        return self.types if self.columns is None else {name: of.type for name, of, _ in self.columns}

    def steps(self) -> Iterator[RowStep]:
        """The steps that it amounts to."""
        for conditions in self.filters:
            term = conditions[0] if len(conditions) == 1 else Term("AND", BOOLEAN, conditions)
            yield Filter(Expression(render(term), BOOLEAN))
        if self.columns is not None:
            yield Project(tuple((name, Expression(render(term), of.type)) for name, of, term in self.columns))

    def with_step(self, step: Filter | Project) -> _Part | None:
        """This part with the step after it; None if it has to be a step of its own."""
        types = self.types_after()
        if isinstance(step, Filter):
            condition = self._over_types(term_of(step.condition, types))
            return None if condition is None else self._where(condition)
        columns = []
        for name, of in step.columns:
            term = self._over_types(term_of(of, types))
            if term is None:
                return None
            columns.append((name, of, term))
        if self.columns is not None and _repeats(term for *_, term in columns):
            return None
        return replace(self, columns=tuple(columns))

    def _where(self, condition: Term) -> _Part:
        conditions = condition.args if condition.op == "AND" else (condition,)
        if self.filters and all(map(is_simple, (*self.filters[-1], *conditions))):
            return replace(self, filters=(*self.filters[:-1], (*self.filters[-1], *conditions)))
        return replace(self, filters=(*self.filters, (condition,)))

    def _over_types(self, term: Term) -> Term | None:
        """A term over the rows of this part, as one over `types`; None if that would compute a column twice."""
        if self.columns is None:
            return term
        own = {name: (of, of_column) for name, of, of_column in self.columns}
        if term.op == "field":
            return own[term.text][1] if term.text in own else term
        for name in _fields(term):
            if name in own and not _replaces(*own[name]):
                return None
        return _replaced(term, {name: of_column for name, (_, of_column) in own.items()})


def _replaces(of: Expression, term: Term) -> bool:
    """Whether the term of a column may be written in place of its name, inside of another expression."""
    if of.type != term.type:
        return False
    # Beside a constant, types are not always those that they would be beside a column with its value.
    return term.op == "field" or (is_simple(term) and not term.is_literal and len(render(term)) <= LONGEST)


def _replaced(term: Term, columns: Mapping[str, Term]) -> Term:
    if term.op == "field":
        return columns.get(term.text, term)
    return replace(term, args=tuple(_replaced(arg, columns) for arg in term.args))


def _fields(term: Term) -> Iterator[str]:
    if term.op == "field":
        yield term.text
    for arg in term.args:
        yield from _fields(arg)


def _repeats(terms: Iterable[Term]) -> bool:
    """Whether a term that costs more than a little is among them twice."""
    costly = [term for term in terms if not is_simple(term) and term.op != "field"]
    return len(set(costly)) < len(costly)


def _types_after(types: Mapping[str, Type], step: RowStep) -> dict[str, Type]:
    """The columns after a step that adds some."""
    match step:
        case Explode():
            position = {step.position: INT} if step.position else {}
            return {**types, **position, **dict(zip(step.names, step.types, strict=True))}
        case Map():
            return {**types, **dict(step.columns)}
        case Join() if step.kind in ("inner", "left"):
            return {**types, **{name: of for name, _, of in step.columns}}
    return dict(types)
