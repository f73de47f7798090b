"""Calls of functions of the workspace in derived rows: each becomes a step of its own, before the one that uses it.

So a call that fails leaves out the row that it failed for, and nothing else, wherever the call was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headrace.define.expression.check import Checker, Scope, parse_tree
from headrace.define.expression.terms import Term, render
from headrace.define.own import find_function, functions_in
from headrace.define.relation import Explode, Filter, Map, Project, RowStep, Sample
from headrace.define.tokens import Source
from headrace.types import Expression, Type

PREFIX = "_map_"  # of columns that hold results: no column of a query begins with _


def with_calls(step: RowStep, types: Mapping[str, Type], first: int) -> tuple[RowStep, ...]:
    """The step after one for each call in its expressions; results are numbered from `first` on."""
    calls: dict[str, Map] = {}

    def lifted(expression: Expression) -> Expression:
        if not functions_in(expression.sql):
            return expression
        source = Source(expression.sql)
        term = _lift(Checker(source, Scope(types)).term(parse_tree(source)), calls, first)
        return Expression(render(term), expression.type)

    last = _rewrite(step, lifted)
    return (*calls.values(), last)


def _lift(term: Term, calls: dict[str, Map], first: int) -> Term:
    """The term with a column in place of each call, the innermost first; equal calls are made once."""
    term = replace(term, args=tuple(_lift(arg, calls, first) for arg in term.args))
    function = find_function(term.op)
    if function is None:
        return term
    column = f"{PREFIX}{first + len(calls)}"
    arguments = tuple(Expression(render(arg), arg.type) for arg in term.args)
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
        case Sample():
            return replace(step, keys=tuple(map(of, step.keys)))
    return step


def number_of_calls(branches: Sequence[Sequence[RowStep]]) -> int:
    """How many numbers of results the steps of branches use."""
    numbers = [
        int(column.removeprefix(PREFIX)) + 1
        for steps in branches
        for step in steps
        if isinstance(step, Map)
        for column, _ in step.columns
    ]
    return max(numbers, default=0)
