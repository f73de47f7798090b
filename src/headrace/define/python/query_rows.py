"""From the steps of a query, as written in Python, to derived rows: streams and names get types here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from headrace.define.derived_rows import DerivedRows, NamedExpressions
from headrace.define.model import Table
from headrace.define.python.query_builder import (
    Conditions,
    Explosion,
    Joining,
    Mapping,
    Query,
    RowStep,
    Sampling,
    SelectStep,
    Union,
)
from headrace.define.relation import JoinKind
from headrace.define.table_joins import TableScope, apply_join
from headrace.errors import DefinitionError
from headrace.language import hints
from headrace.language.check import Checker, Scope, check, check_condition, user_call
from headrace.language.expressions import parse_tree
from headrace.language.identifiers import check_name
from headrace.language.source_text import Mistakes, SourceText, placed
from headrace.language.statements.create_view import read_item_text
from headrace.language.syntax import Call, JoinItem, Name
from headrace.language.terms import Expression, conjunction, quote
from headrace.language.user_functions import find_function


def rows_of(query: Query, following: RowStep | None = None) -> DerivedRows:
    """The rows of a query, without the conditions that follow its last step; `following` is a step after it."""
    if isinstance(query.stream, Table) and query.steps:
        raise DefinitionError(
            f"'{query.stream.name}' is a table: rows are made of events of streams",
            fix=f"join it to a stream, or read it in a view: {query.stream.name}.group_by(…).agg(…)",
        )
    rows = DerivedRows.of(query.stream)
    steps = (*query.steps, following)
    for step, next_step in zip(query.steps, steps[1:], strict=True):
        rows = _apply(step, rows, before_union=isinstance(next_step, Union))
    return rows


def all_rows_of(query: Query, what: str, following: RowStep | None = None) -> DerivedRows:
    """All rows of a query that makes no view; `following` is a step after it."""
    if query.is_of_view:
        raise DefinitionError(
            f"{what} is made of one event at a time, and group_by and agg need other events",
            fix="write hr.View(…) for a materialized view",
        )
    if isinstance(query.stream, Table):
        raise DefinitionError(
            f"{what} is made of events of streams, and '{query.stream.name}' is a table", fix="name a stream"
        )
    rows = rows_of(query, None if query.conditions else following)
    return _apply(Conditions(query.conditions), rows) if query.conditions else rows


def join_conditions(sources: Sequence[SourceText], scope: Scope) -> Expression | None:
    """The condition that all of these hold; None if there are none."""
    mistakes, conditions = Mistakes(), []
    for source in sources:
        with mistakes.collect():
            conditions.append(check_condition(source, parse_tree(source), scope, "where"))
    mistakes.check()
    return conjunction(conditions)


def _apply(step: RowStep, rows: DerivedRows, *, before_union: bool = False) -> DerivedRows:
    match step:
        case Conditions():
            condition = join_conditions(step.sources, rows.scope())
            return rows if condition is None else rows.where(condition)
        case SelectStep():
            with placed(step.at):
                return rows.select(_columns(step, rows, before_union))
        case Explosion():
            values = check(step.values, parse_tree(step.values), rows.scope())
            with placed(step.at):
                return rows.explode(values, step.names, outer=step.outer, position=step.position)
        case Union():
            with placed(step.at):
                return rows.union(*(all_rows_of(other, "a union", step) for other in step.others))
        case Sampling():
            keys = [check(key, parse_tree(key), rows.scope()) for key in step.keys]
            with placed(step.at):
                return rows.sample(step.percent, keys, step.seed)
        case Mapping():
            with placed(step.at):
                return _map(step, rows)
        case Joining():
            with placed(step.at):
                return _join(step, rows)


def _join(step: Joining, rows: DerivedRows) -> DerivedRows:
    on, kind = parse_tree(step.on), cast(JoinKind, step.how)
    item = JoinItem(0, step.table.name, kind, step.alias, parse_tree(step.as_of) if step.as_of else None)
    alone = isinstance(on, Name) and on.of is None
    item = replace(item, using=(on.name,)) if isinstance(on, Name) and alone else replace(item, on=on)
    return apply_join(item, rows, TableScope(step.on, {step.table.name.lower(): step.table}, {}))


def _columns(step: SelectStep, rows: DerivedRows, before_union: bool) -> NamedExpressions:
    star = [(entry.name, entry.expression) for entry in rows.star()]
    if step.kind == "drop":
        return _without(star, [source.text for _, source in step.columns])
    mistakes = Mistakes()
    columns: list[tuple[str, Expression]] = list(star) if step.kind == "with_columns" else []
    for name, source in step.columns:
        with mistakes.collect():
            if name is None and source.text.strip() == "*":
                columns += star
                continue
            column, value = _column(name, source, rows, before_union)
            place = next((at for at, (known, _) in enumerate(columns) if known.lower() == column.lower()), None)
            if step.kind == "with_columns" and place is not None:
                columns[place] = columns[place][0], value
            else:
                columns.append((column, value))
    mistakes.check()
    return columns


def _column(name: str | None, source: SourceText, rows: DerivedRows, before_union: bool) -> tuple[str, Expression]:
    item = read_item_text(source)
    scope = rows.scope()
    name = name or item.alias or Checker(source, scope).name(item.node)
    if name is None:
        raise source.error(item.node.at, "this expression has no name", fix=f'write select(name="{source.text}")')
    check_name(name, "field")
    return name, check(source, item.node, scope, may_be_null=before_union)


def _without(columns: NamedExpressions, names: Sequence[str]) -> NamedExpressions:
    known = {name.lower(): name for name, _ in columns}
    for name in names:
        if name.lower() not in known:
            raise DefinitionError(
                f"drop names '{name}', which is no column", fix=hints.similar_name(name.lower(), known)
            )
    without = {name.lower() for name in names}
    rest = [(name, of) for name, of in columns if name.lower() not in without]
    if not rest:
        raise DefinitionError("drop leaves no column", fix="keep one of them")
    return rest


def _map(step: Mapping, rows: DerivedRows) -> DerivedRows:
    """The rows with the columns that a function gives: the parts of a STRUCT, or one."""
    function = find_function(step.function)
    if function is None:
        raise DefinitionError(
            f"there is no function '{step.function}'", fix="decorate it by @hr.udf, in a Python file of the definitions"
        )
    arguments = step.arguments or tuple(SourceText(quote(name), at=step.at) for name, _ in function.takes)
    values = [check(source, parse_tree(source), rows.scope()) for source in arguments]
    call = Call(0, function.full_name, tuple(Name(0, value.sql) for value in values))
    value = Expression(user_call(SourceText("", at=step.at), call, function, [each.term for each in values]))
    columns = [(entry.name, entry.expression) for entry in rows.star()]
    if value.type.name != "STRUCT" or step.name:
        return rows.select([*columns, (step.name or function.name, value)])
    parts = [(name, value.part(name, of)) for name, of in value.type.parts]
    return rows.select([*columns, *parts])
