"""Counts and sums of a sample of the events: scaled to all events, with a bound on the error.

The bound holds for about 95 of 100 values. It is that of Wilson's score interval, which is right for few events, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from headrace.aggregate.aggregate import Aggregate, Partial, PartialColumn, Value
from headrace.aggregate.merges import EXACT, SUM
from headrace.aggregate.numeric import DOUBLE_TOLERANCE, Count, CountIf, Sum
from headrace.lazy import pa
from headrace.types import DOUBLE

Z = 1.959963984540054  # standard deviations on each side of the mean that contain 95 % of a normal distribution


@dataclass(frozen=True)
class Scaling:
    """From a sample to all events."""

    percent: float
    words: str  # for the stated error
    bounded: bool = True  # whether each event was chosen by itself: else no bound is known

    @property
    def factor(self) -> Decimal:
        """What values of the sample are multiplied by."""
        return EXACT.divide(Decimal(100), Decimal(str(self.percent)))

    def bound(self, count: int, squares: float) -> float | None:
        """The bound of a sum of so many values with this sum of squares; of a count both are the count."""
        if not self.bounded or not count:
            return None
        left_out = 1 - self.percent / 100
        size = math.sqrt(squares / count)  # of a value
        spread = math.sqrt(left_out * (count + Z * Z * left_out / 4))
        return size * (Z * Z * left_out / 2 + Z * spread) * 100 / self.percent


NOT_SAMPLED = Scaling(100, "all events")


class _Sampled(Aggregate):
    """What scaled aggregates share."""

    scaling: Scaling
    has_bounds = True

    @property
    def approximate(self) -> str:  # type: ignore[override]  # of each, not of the class
        """The stated error in words."""
        bound = "95 % bounds are stated" if self.scaling.bounded else "the error is not known"
        return f"scaled from {self.scaling.words}; {bound}"

    @property
    def subtracts(self) -> bool:
        return False


@dataclass(frozen=True)
class SampledCount(_Sampled, Count):
    """count of a sample."""

    scaling: Scaling = NOT_SAMPLED

    def present(self, partial: Partial) -> Value:
        return int(_rounded(Decimal(partial[0] or 0) * self.scaling.factor, 0))

    def present_arrow(self, partials: Sequence[pa.Array]) -> pa.Array | None:
        return None

    def bound(self, partial: Partial) -> float | None:
        return self.scaling.bound(partial[0] or 0, partial[0] or 0)


@dataclass(frozen=True)
class SampledCountIf(SampledCount, CountIf):
    """count_if of a sample."""


@dataclass(frozen=True)
class SampledSum(_Sampled, Sum):
    """sum of a sample. Its partial also has the sum of the squares, for the bound."""

    scaling: Scaling = NOT_SAMPLED

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (*super().columns, PartialColumn("squares", DOUBLE, SUM))

    def spark_columns(self, x: str) -> tuple[str, ...]:
        return (*super().spark_columns(x), self._squares(x))

    def duckdb_columns(self, x: str) -> tuple[str, ...]:
        # A sum of DOUBLEs has one form in both engines: its `duckdb_columns` has called `spark_columns`.
        columns = super().duckdb_columns(x)
        return columns if self._is_double else (*columns, self._squares(x))

    def _squares(self, x: str) -> str:
        return self.filtered(f"sum(CAST({x} AS DOUBLE) * CAST({x} AS DOUBLE))")

    def lift(self, x: Value) -> Partial:
        return self.zero if x is None else (*super().lift(x), float(x) * float(x))

    def present(self, partial: Partial) -> Value:
        value = super().present(partial[:-1])
        if value is None:
            return None
        if self._is_double:
            return value * 100 / self.scaling.percent
        scaled = _rounded(EXACT.multiply(Decimal(value), self.scaling.factor), self.type.scale)
        if self.argument.type.is_integer:
            return int(scaled)
        return scaled if abs(scaled) < 10 ** (38 - self.type.scale) else None

    def present_arrow(self, partials: Sequence[pa.Array]) -> pa.Array | None:
        return None

    def agrees(self, a: Partial, b: Partial) -> bool:
        squares = (a[-1] or 0.0, b[-1] or 0.0)
        same = not all(map(math.isfinite, squares)) or math.isclose(*squares, rel_tol=DOUBLE_TOLERANCE)
        return same and super().agrees(a, b)

    def bound(self, partial: Partial) -> float | None:
        return None if partial[0] is None else self.scaling.bound(partial[1], partial[-1])


def scale(aggregate: Aggregate, scaling: Scaling) -> Aggregate:
    """The same aggregate of a sample. Counts and sums are scaled; others are what they are of the sample."""
    for cls in (SampledCount, SampledCountIf, SampledSum):
        if type(aggregate) in (cls, _SCALED[cls]):
            return cls(aggregate.arguments, aggregate.where, aggregate.parameters, scaling=scaling)
    return aggregate


_SCALED: dict[type[Aggregate], type[Aggregate]] = {SampledCount: Count, SampledCountIf: CountIf, SampledSum: Sum}


def _rounded(value: Decimal, scale: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)
