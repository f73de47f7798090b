"""Aggregates that choose a value by order: min, max."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.aggregate.base import Aggregate, Example, Partial, PartialColumn, Value
from headrace.aggregate.merges import MAX, MIN
from headrace.aggregate.signature import SINGLE, Argument
from headrace.types import DOUBLE, INT, STRING, Type

if TYPE_CHECKING:
    import pyarrow as pa


class _Extreme(Aggregate):
    """What min and max share: one value, NULL and NaN skipped."""

    takes = (Argument("expression", SINGLE),)
    gives = "the type of the expression"
    has_duckdb_face = True

    @property
    def type(self) -> Type:
        return self.argument.type

    def spark_columns(self, x: str) -> tuple[str, ...]:
        # NaN has no place in an order that every engine shares; + 0.0 makes -0.0 and 0.0 one value.
        value = f"nanvl({x}, NULL) + 0.0D" if self.type == DOUBLE else x
        return (self.filtered(f"{self.name}({value})"),)

    def duckdb_columns(self, x: str) -> tuple[str, ...]:
        value = f"CASE WHEN NOT isnan({x}) THEN {x} + CAST(0 AS DOUBLE) END" if self.type == DOUBLE else x
        return (self.filtered(f"{self.name}({value})"),)

    def lift(self, x: Value) -> Partial:
        if isinstance(x, float):
            return (None if math.isnan(x) else x + 0.0,)
        return (x,)

    def present(self, partial: Partial) -> Value:
        return partial[0]

    def present_arrow(self, partials: Sequence[pa.Array]) -> pa.Array | None:
        return partials[0]


class Min(_Extreme):
    """min(x)."""

    name = "min"
    summary = "The minimum of an expression."
    examples = (Example((INT,), ((2,), (None,), (-1,)), -1), Example((STRING,), ((None,),), None))

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", self.type, MIN),)


class Max(_Extreme):
    """max(x)."""

    name = "max"
    summary = "The maximum of an expression."
    examples = (Example((INT,), ((2,), (None,), (-1,)), 2), Example((STRING,), ((None,),), None))

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", self.type, MAX),)
