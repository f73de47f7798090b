"""Counts by range: histogram."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from headrace.aggregate.aggregate import Aggregate, Example, Partial, PartialColumn, Value
from headrace.aggregate.merges import SUM
from headrace.aggregate.signature import NUMBER, Argument, Constant, Parameter
from headrace.language.terms import Expression
from headrace.types import BIGINT, DOUBLE, INT, Type, array

MOST_EDGES = 100


class Histogram(Aggregate):
    """histogram(x, array(10, 100)): how many x are below 10, in [10, 100), and from 100 on; NULL and NaN skipped."""

    name = "histogram"
    takes = (Argument("expression", NUMBER),)
    constants = (
        Parameter(
            "edges",
            float,
            "numbers in ascending order, as in array(10, 100, 1000)",
            ((0.0,), (-1.5, 0.0, 10.0)),
            one=False,
            several=True,
        ),
    )
    summary = (
        "The number of values in each range between fixed edges: below the first, then from each edge (included) to "
        "the next (excluded), and from the last one on. NULL if there is no value; NaN is skipped."
    )
    gives = "ARRAY of BIGINT, one more than there are edges"
    examples = (
        Example((INT,), ((5,), (10,), (None,), (99,), (1000,)), [1, 2, 0, 1], ((10.0, 100.0, 1000.0),)),
        Example((DOUBLE,), ((math.nan,),), None, ((1.0,),)),
    )
    runs_in_duckdb = True

    @classmethod
    def refuse(cls, arguments: Sequence[Expression], parameters: Sequence[Constant] = ()) -> str | None:
        reason = super().refuse(arguments, parameters)
        if reason:
            return reason
        edges = _numbers(parameters[0])
        if len(edges) > MOST_EDGES:
            return f"histogram takes at most {MOST_EDGES} edges, found {len(edges)}; leave some out"
        if not all(map(math.isfinite, edges)) or any(a >= b for a, b in pairwise(edges)):
            in_order = ", ".join(f"{edge:g}" for edge in sorted({edge for edge in edges if math.isfinite(edge)}))
            return f"histogram takes edges in ascending order, each once; write array({in_order})"
        return None

    @property
    def edges(self) -> tuple[float, ...]:
        """The starts of all ranges but the first."""
        return _numbers(self.parameters[0])

    @property
    def type(self) -> Type:
        return array(BIGINT)

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return tuple(PartialColumn(str(at), BIGINT, SUM) for at in range(len(self.edges) + 1))

    def spark_columns(self, x: str) -> tuple[str, ...]:
        value = f"nanvl(CAST({x} AS DOUBLE), NULL)"
        return tuple(self.filtered(f"count_if({condition})") for condition in self._conditions(value, "{!r}D"))

    def duckdb_columns(self, x: str) -> tuple[str, ...]:
        double = f"CAST({x} AS DOUBLE)"
        value = f"CASE WHEN NOT isnan({double}) THEN {double} END"
        return tuple(
            self.filtered(f"count_if({condition})") for condition in self._conditions(value, "CAST('{!r}' AS DOUBLE)")
        )

    def _conditions(self, value: str, literal: str) -> list[str]:
        edges = [literal.format(edge) for edge in self.edges]
        within = [f"{value} >= {start} AND {value} < {end}" for start, end in pairwise(edges)]
        return [f"{value} < {edges[0]}", *within, f"{value} >= {edges[-1]}"]

    def lift(self, x: Value) -> Partial:
        if x is None or math.isnan(x):
            return (0,) * len(self.columns)
        place = bisect_right(self.edges, float(x))
        return tuple(int(at == place) for at in range(len(self.columns)))

    @property
    def subtracts(self) -> bool:
        return True

    def subtract(self, total: Partial, part: Partial) -> Partial:
        return tuple((a or 0) - (b or 0) for a, b in zip(total, part, strict=True))

    def subtract_columns(self, total: Sequence[str], part: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"coalesce({a}, 0) - coalesce({b}, 0)" for a, b in zip(total, part, strict=True))

    def present(self, partial: Partial) -> Value:
        return [count or 0 for count in partial] if any(partial) else None


def _numbers(edges: Constant) -> tuple[float, ...]:
    return tuple(map(float, edges)) if isinstance(edges, tuple) else ()
