"""Aggregates of conditions: bool_or, bool_and."""

from __future__ import annotations

import operator
from typing import ClassVar

from headrace.aggregate.base import Example, Partial, PartialColumn, Plain, Value
from headrace.aggregate.merges import Merge
from headrace.aggregate.signature import CONDITION, Argument
from headrace.types import BOOLEAN, Type


class _Logical(Plain):
    """What bool_or and bool_and share: one value, NULL skipped."""

    takes = (Argument("expression", CONDITION),)
    gives = "BOOLEAN"
    column_merge: ClassVar[Merge]
    has_duckdb_face = True

    @property
    def type(self) -> Type:
        return BOOLEAN

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", BOOLEAN, self.column_merge),)

    def spark_columns(self, x: str) -> tuple[str, ...]:
        return (self.filtered(f"{self.name}({x})"),)

    duckdb_columns = spark_columns

    def lift(self, x: Value) -> Partial:
        return (x,)


class BoolOr(_Logical):
    """bool_or(x)."""

    name = "bool_or"
    distinct = "bool_or"
    summary = "Whether an expression is true for at least one event."
    examples = (
        Example((BOOLEAN,), ((False,), (None,), (True,)), True),
        Example((BOOLEAN,), ((False,), (None,)), False),
        Example((BOOLEAN,), ((None,),), None),
    )
    other_names = ("some", "any")
    column_merge = Merge("or", operator.or_, "{0} OR {1}", "bool_or({0})", chooses=True)


class BoolAnd(_Logical):
    """bool_and(x)."""

    name = "bool_and"
    distinct = "bool_and"
    summary = "Whether an expression is true for every event of which it is not NULL."
    examples = (
        Example((BOOLEAN,), ((True,), (None,), (False,)), False),
        Example((BOOLEAN,), ((True,), (None,)), True),
        Example((BOOLEAN,), ((None,),), None),
    )
    other_names = ("every",)
    column_merge = Merge("and", operator.and_, "{0} AND {1}", "bool_and({0})", chooses=True)
