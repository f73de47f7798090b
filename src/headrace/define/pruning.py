"""Leaves out of relations what nobody reads, and makes views over derived streams views over their base streams.

What is left out is no part of the view: a change of it makes no new version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headrace.define.expression.check import parse_tree
from headrace.define.expression.syntax import Logic
from headrace.define.expression.terms import quote
from headrace.define.loosening import expressions_of, names_in
from headrace.define.model import Stream, View
from headrace.define.relation import Branch, Explode, Filter, Join, Map, Project, Reads, Relation, RowStep, Sample
from headrace.define.tokens import Source
from headrace.types import BOOLEAN, Expression


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
            needed = (passing | names_in(_expressions_of(pruned))) - set(_added_by(pruned))
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
            used = needed | names_in([step.condition] if step.condition else [])
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


def _expressions_of(step: RowStep) -> list[Expression]:
    match step:
        case Filter():
            return [step.condition]
        case Project():
            return [of for _, of in step.columns]
        case Explode():
            return [step.values]
        case Map():
            return list(step.arguments)
        case Join():
            return [*(of for of, _ in step.keys), *(of for of in (step.as_of, step.condition) if of)]
        case Sample():
            return list(step.keys)


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
    if stream.relation is None:
        return view
    relation = prune(stream.relation, (name for name, _ in view.reads))
    branch, *more = relation.branches
    filters = [step for step in branch.steps if isinstance(step, Filter)]
    if more or len(filters) < len(branch.steps) or branch.patience_ms is not None:
        return replace(view, streams=relation.streams, relation=relation)
    # Events that are only filtered are the events of the stream itself, under a longer WHERE.
    where = _all_of([*(step.condition for step in filters), *([view.where] if view.where else [])])
    names = names_in(expressions_of(view.keys, view.columns, where))
    reads = tuple((name, of) for name, of in branch.reads if name in names)
    return replace(view, streams=relation.streams, where=where, reads=reads)


def _all_of(conditions: Sequence[Expression]) -> Expression | None:
    """The condition that all of these hold, in canonical form."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    texts = []
    for condition in conditions:
        tree = parse_tree(Source(condition.sql))
        texts.append(f"({condition.sql})" if isinstance(tree, Logic) and tree.op == "OR" else condition.sql)
    return Expression(" AND ".join(texts), BOOLEAN)
