"""Relations in words, for plans and status."""

from __future__ import annotations

import re

from headrace.define.relation import Branch, Explode, Filter, Join, Map, Project, Relation, RowStep, SampleRows
from headrace.define.relation_rewrites import PREFIX
from headrace.language.terms import Expression, quote

_RESULT = re.compile(rf"\b{PREFIX}\d+\b")  # a column that holds the result of a call


def describe_relation(relation: Relation) -> dict[str, str]:
    """Return how rows are made of the events of each base stream, in a line."""
    return {
        stream: " and ".join(describe_branch(branch) for branch in relation.branches_of(stream))
        for stream in relation.streams
    }


def sources_of(relation: Relation) -> tuple[str, ...]:
    """Return what rows are made of: the base streams, then the tables."""
    return (*relation.streams, *relation.tables)


def describe_branch(branch: Branch) -> str:
    """The steps of a branch, in their order. A call of a function is shown where it was written."""
    texts: list[str] = []
    calls: dict[str, str] = {}
    for step in branch.steps:
        text = _RESULT.sub(lambda match: calls.get(match[0], match[0]), _describe(step))
        if isinstance(step, Map) and _RESULT.fullmatch(step.columns[0][0]):
            calls[step.columns[0][0]] = text.rpartition(" AS ")[0]
        else:
            texts.append(text)
    return "; ".join(texts) or "all events"


def _describe(step: RowStep) -> str:
    match step:
        case Filter():
            return f"where {step.condition}"
        case Project():
            return f"select {', '.join(_column(name, of) for name, of in step.columns)}"
        case Explode():
            kind = f"{'pos' if step.position else ''}explode{'_outer' if step.outer else ''}"
            names = [*([step.position] if step.position else []), *step.names]
            return f"{kind}({step.values}) AS {', '.join(map(quote, names))}"
        case Map():
            columns = ", ".join(quote(name) for name, _ in step.columns)
            return f"{step.function}({', '.join(map(str, step.arguments))}) AS {columns}"
        case Join():
            on = " AND ".join(f"{of} = {quote(column)}" for of, column in step.keys)
            as_of = f" as of {step.as_of}" if step.as_of else ""
            condition = f" where {step.condition}" if step.condition else ""
            return f"{step.kind} join {step.table}{as_of} on {on}{condition}"
        case SampleRows():
            keys = f" by {', '.join(map(str, step.keys))}" if step.keys else ""
            return f"sample {step.percent:g} percent{keys}"


def _column(name: str, of: Expression) -> str:
    return quote(name) if of.sql == quote(name) else f"{of} AS {quote(name)}"
