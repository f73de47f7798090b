"""The columns of a view's answers, and how what shapes them was written."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.define.fingerprint import aggregate_id
from headrace.define.model import Column, Order, Output, View
from headrace.language.terms import Expression


def outputs_of(view: View) -> tuple[Output, ...]:
    """The columns of a view's answers."""
    if view.shape and (view.shape.outputs or view.shape.only_keys):
        return view.shape.outputs
    return tuple(
        Output(c.name, Expression.field(aggregate_id(c.aggregate), c.aggregate.spark_type)) for c in view.columns
    )


def written(view: View, expression: Expression) -> str:
    """The expression as SELECT writes it: each aggregate as a call."""
    return re.sub(r"(\d\.\d+)BD\b", r"\1", with_calls(expression.sql, view.columns))


def with_calls(text: str, columns: Iterable[Column]) -> str:
    """A text with each aggregate as a call, in place of its id."""
    calls = {aggregate_id(column.aggregate): column.aggregate.sql for column in columns}
    return re.sub(r"\w+", lambda match: calls.get(match[0], match[0]), text)


def written_order(view: View, order: Iterable[Order]) -> str:
    """The items of ORDER BY as they are written."""
    return ", ".join(_written_item(view, item) for item in order)


def _written_item(view: View, item: Order) -> str:
    name = next((output.name for output in outputs_of(view) if output.expression == item.expression), None)
    direction = " DESC" if item.descending else ""
    nulls = "" if item.nulls_first != item.descending else f" NULLS {'FIRST' if item.nulls_first else 'LAST'}"
    return f"{name or written(view, item.expression)}{direction}{nulls}"
