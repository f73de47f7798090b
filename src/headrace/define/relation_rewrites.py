"""Rewrites relations: calls of functions become steps, chains of steps become shorter, and what nobody reads is left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from headrace.define.model import ARRIVED, Stream, View
from headrace.define.relation import (
    Branch,
    Explode,
    Filter,
    Join,
    Map,
    Project,
    Reads,
    Relation,
    RowStep,
    SampleRows,
    expressions_of,
    types_after,
)
from headrace.errors import DefinitionError
from headrace.language.terms import COMPARISON, LEVELS, Expression, Term, conjunction, quote, render
from headrace.language.user_functions import find_function, functions_of
from headrace.types import BOOLEAN, DOUBLE, TIMESTAMP, Type

PREFIX = "_map_"  # of columns that hold results: no column of a query begins with _


def with_calls(step: RowStep, types: Mapping[str, Type], first: int) -> tuple[RowStep, ...]:
    """The step after one for each call in its expressions; results are numbered from `first` on."""
    calls: dict[str, Map] = {}

    def lifted(expression: Expression) -> Expression:
        if not functions_of([expression]):
            return expression
        return Expression(_lift(expression.over(types), calls, first), expression.type)

    last = _rewrite(step, lifted)
    return (*calls.values(), last)


def _lift(term: Term, calls: dict[str, Map], first: int) -> Term:
    """The term with a column in place of each call, the innermost first; equal calls are made once."""
    term = replace(term, args=tuple(_lift(arg, calls, first) for arg in term.args))
    function = find_function(term.op)
    if function is None:
        return term
    column = f"{PREFIX}{first + len(calls)}"
    arguments = tuple(map(Expression, term.args))
    call = calls.setdefault(render(term), Map(function.full_name, arguments, ((column, function.gives),)))
    return Term("field", function.gives, text=call.columns[0][0])


def _rewrite(step: RowStep, of: Callable[[Expression], Expression]) -> RowStep:
    match step:
        case Filter():
            return Filter(of(step.condition))
        case Project():
            return Project(tuple((name, of(value)) for name, value in step.columns))
        case Explode():
            return replace(step, values=of(step.values))
        case SampleRows():
            return replace(step, keys=tuple(map(of, step.keys)))
    return step


def number_of_calls(branches: Sequence[Sequence[RowStep]]) -> int:
    """Return how many numbers of results the steps of branches use."""
    numbers = [
        int(column.removeprefix(PREFIX)) + 1
        for steps in branches
        for step in steps
        if isinstance(step, Map)
        for column, _ in step.columns
    ]
    return max(numbers, default=0)


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
    return expression.over({**types, ARRIVED: TIMESTAMP})


def _steps(branch: Branch) -> Iterator[RowStep]:
    part = _Part(dict(branch.reads))
    for step in branch.steps:
        if not isinstance(step, Filter | Project):
            yield from part.steps()
            yield step
            part = _Part(types_after(part.types_after(), step))
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
            yield Filter(Expression(term))
        if self.columns is not None:
            yield Project(tuple((name, Expression(term, of.type)) for name, of, term in self.columns))

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
        for name in term.fields():
            if name in own and not _replaces(*own[name]):
                return None
        return term.substitute({name: of_column for name, (_, of_column) in own.items()})


def _replaces(of: Expression, term: Term) -> bool:
    """Return True if the term of a column may be written in place of its name, inside of another expression."""
    if of.type != term.type:
        return False
    # Beside a constant, types are not always those that they would be beside a column with its value.
    return term.op == "field" or (is_simple(term) and not term.is_literal and len(render(term)) <= LONGEST)


def _repeats(terms: Iterable[Term]) -> bool:
    """Return True if a term that costs more than a little is among them twice."""
    costly = [term for term in terms if not is_simple(term) and term.op != "field"]
    return len(set(costly)) < len(costly)


def prune(relation: Relation, names: Iterable[str]) -> Relation:
    """The relation with these fields and the event time only, reading no more of its base streams than they need."""
    needed = {*names, *([relation.event_time] if relation.event_time else [])}
    return replace(
        relation,
        branches=tuple(_prune_branch(branch, set(needed)) for branch in relation.branches),
        fields=tuple((name, of) for name, of in relation.fields if name in needed),
    )


def _prune_branch(branch: Branch, needed: set[str]) -> Branch:
    steps: list[RowStep] = []
    for step in reversed(branch.steps):
        pruned = _prune_step(step, needed)
        if pruned is not None:
            passing = set() if isinstance(pruned, Project) else needed
            needed = passing.union(*(of.term.words() for of in expressions_of(pruned))) - set(_added_by(pruned))
            steps.insert(0, pruned)
    reads = tuple((name, of) for name, of in branch.reads if name in needed)
    return replace(branch, reads=reads, steps=tuple(_without_idle(steps, reads)))


def _prune_step(step: RowStep, needed: set[str]) -> RowStep | None:
    """The step without the columns that nobody needs; None if it then does nothing."""
    match step:
        case Project():
            return Project(tuple((name, of) for name, of in step.columns if name in needed))
        case Explode() if step.position not in needed:
            return replace(step, position=None)
        case Join():
            used = needed | (step.condition.term.words() if step.condition else set())
            step = replace(step, columns=tuple(column for column in step.columns if column[0] in used))
            if step.log.relation:
                relation = prune(step.log.relation, (name for name, _ in step.reads))
                step = replace(step, log=replace(step.log, relation=relation))
            # A key has at most one row, so that without its columns a left join changes nothing.
            return None if step.kind == "left" and not needed & {name for name, _, _ in step.columns} else step
    return step


def _added_by(step: RowStep) -> Iterable[str]:
    """The columns that a step adds: the rows before it do not have them."""
    match step:
        case Explode():
            return [*step.names, *([step.position] if step.position else [])]
        case Map():
            return [name for name, _ in step.columns]
        case Join():
            return [name for name, _, _ in step.columns]
    return []


def _without_idle(steps: Sequence[RowStep], reads: Reads) -> Iterable[RowStep]:
    """The steps without projections that only leave columns out: `fields` says which are there in the end."""
    columns = {name.lower() for name, _ in reads}
    for number, step in enumerate(steps):
        if isinstance(step, Project):
            names = {name.lower() for name, _ in step.columns}
            only_selects = all(of.sql == quote(name) for name, of in step.columns)
            if only_selects and not (columns - names) & _added_next(steps[number + 1 :]):
                continue
            columns = names
        else:
            columns |= {name.lower() for name in _added_by(step)}
        yield step


def _added_next(steps: Sequence[RowStep]) -> set[str]:
    """The columns that are added before the next projection: none of the rows may have their names."""
    added: set[str] = set()
    for step in steps:
        if isinstance(step, Project):
            break
        added |= {name.lower() for name in _added_by(step)}
    return added


def view_over(view: View, stream: Stream) -> View:
    """A view that was made over a derived stream, as one over its base streams."""
    assert stream.relation is not None, "the stream is derived"
    relation = prune(stream.relation, (name for name, _ in view.reads))
    branch, *more = relation.branches
    filters = [step for step in branch.steps if isinstance(step, Filter)]
    if more or len(filters) < len(branch.steps) or branch.patience_ms is not None:
        return replace(view, streams=relation.streams, relation=relation)
    # Events that are only filtered are the events of the stream itself, under a longer WHERE.
    where = conjunction([*(step.condition for step in filters), *([view.where] if view.where else [])])
    return replace(view, streams=relation.streams, where=where).reading(branch.reads)
