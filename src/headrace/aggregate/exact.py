"""Exact aggregates: count, sum, avg, min, max."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import ClassVar

from headrace.aggregate.base import EXACT, MAX, MIN, SUM, Aggregate, Partial, PartialColumn, Value
from headrace.types import BIGINT, DOUBLE, Expression, Type, decimal

# A sum of DECIMAL(p, s) is kept in 38 digits: ten to spare, so that no order of ten billion
# events can overflow on the way to a sum that fits.
WIDEST_SUMMED = 28
DOUBLE_TOLERANCE = 1e-9  # of the sum of magnitudes


@dataclass(frozen=True)
class Count(Aggregate):
    """count(*), or count(x): events, or those whose x is not NULL."""

    name: ClassVar[str] = "count"

    @classmethod
    def refuse(cls, expression: Expression | None) -> str | None:
        return None

    @property
    def type(self) -> Type:
        return BIGINT

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", BIGINT, SUM),)

    def spark_columns(self) -> tuple[str, ...]:
        return (self.filtered(f"count({self.expression.sql if self.expression else '*'})"),)

    def lift(self, value: Value) -> Partial:
        return (1 if self.expression is None or value is not None else 0,)

    def present(self, partial: Partial) -> Value:
        return partial[0] or 0


@dataclass(frozen=True)
class _Total(Aggregate):
    """What sum and avg share: an exact sum of integers and DECIMALs, a bounded one of DOUBLEs."""

    @classmethod
    def refuse(cls, expression: Expression | None) -> str | None:
        if expression is None or not expression.type.is_numeric:
            found = f"{expression.type} ({expression.sql})" if expression else "nothing"
            return f"{cls.name} takes a number, found {found}; cast it, as in {cls.name}(CAST(x AS DOUBLE))"
        if expression.type.name == "DECIMAL" and expression.type.precision > WIDEST_SUMMED:
            return (
                f"{cls.name} of {expression.type} could overflow its 38 digits in one order of events and not "
                f"in another; cast to DECIMAL({WIDEST_SUMMED},{expression.type.scale}) or narrower"
            )
        return None

    @property
    def _argument(self) -> Expression:
        assert self.expression is not None, "refused without an argument"
        return self.expression

    @property
    def _is_double(self) -> bool:
        return self._argument.type == DOUBLE

    @property
    def _sum_type(self) -> Type:
        return DOUBLE if self._is_double else decimal(38, self._argument.type.scale)

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        summed = (PartialColumn("sum", self._sum_type, SUM), PartialColumn("count", BIGINT, SUM))
        return (*summed, PartialColumn("magnitude", DOUBLE, SUM)) if self._is_double else summed

    def spark_columns(self) -> tuple[str, ...]:
        x = self._argument.sql
        count = self.filtered(f"count({x})")
        if self._is_double:
            return self.filtered(f"sum({x})"), count, self.filtered(f"sum(abs({x}))")
        return f"CAST({self._spark_exact_sum(x)} AS {self._sum_type})", count

    def _spark_exact_sum(self, x: str) -> str:
        if self._argument.type.name == "INT":
            return self.filtered(f"sum(CAST({x} AS BIGINT))")
        if self._argument.type.name == "BIGINT":
            # Two sums of 32-bit halves cannot overflow a BIGINT below 2^31 events a job, and
            # are many times faster than Spark's DECIMAL sum.
            high = self.filtered(f"sum(shiftright({x}, 32))")
            low = self.filtered(f"sum(({x}) & 4294967295L)")
            return f"CAST({high} AS DECIMAL(20,0)) * 4294967296BD + CAST({low} AS DECIMAL(20,0))"
        return self.filtered(f"sum({x})")

    def lift(self, value: Value) -> Partial:
        if value is None:
            return self.zero
        if self._is_double:
            return value, 1, abs(value)
        return Decimal(value), 1

    def agrees(self, a: Partial, b: Partial) -> bool:
        if not self._is_double or a[0] is None or b[0] is None:
            return bool(self.present(a) == self.present(b))
        if not math.isfinite(a[0]) or not math.isfinite(b[0]):
            return str(a[0]) == str(b[0])
        return bool(a[1] == b[1] and abs(a[0] - b[0]) <= DOUBLE_TOLERANCE * max(a[2], b[2]))


@dataclass(frozen=True)
class Sum(_Total):
    """sum(x); NULL when no x was there. Integers are summed without overflow."""

    name: ClassVar[str] = "sum"

    @property
    def type(self) -> Type:
        return self._sum_type

    def present(self, partial: Partial) -> Value:
        if partial[0] is None or self._is_double:
            return partial[0]
        return int(partial[0]) if self._argument.type.is_integer else Decimal(partial[0])


@dataclass(frozen=True)
class Avg(_Total):
    """avg(x): the sum over the count of those that are not NULL."""

    name: ClassVar[str] = "avg"

    @property
    def type(self) -> Type:
        if self._argument.type.name == "DECIMAL":  # Spark's rule: four more digits
            return decimal(38, min(self._argument.type.scale + 4, 38))
        return DOUBLE

    def present(self, partial: Partial) -> Value:
        total, count = partial[0], partial[1]
        if total is None or not count:
            return None
        if self._is_double:
            return total / count
        mean = EXACT.divide(Decimal(total), Decimal(count))
        if self.type == DOUBLE:
            return float(mean)
        return mean.quantize(Decimal(1).scaleb(-self.type.scale), ROUND_HALF_UP, EXACT)


@dataclass(frozen=True)
class _Extreme(Aggregate):
    """What min and max share: one value, NULL and NaN skipped."""

    @classmethod
    def refuse(cls, expression: Expression | None) -> str | None:
        return None if expression else f"{cls.name} takes a value, found nothing; write {cls.name}(x)"

    @property
    def _argument(self) -> Expression:
        assert self.expression is not None, "refused without an argument"
        return self.expression

    @property
    def type(self) -> Type:
        return self._argument.type

    def spark_columns(self) -> tuple[str, ...]:
        # NaN has no place in an order that every engine shares; + 0.0 makes -0.0 and 0.0 one value.
        x = f"nanvl({self._argument.sql}, NULL) + 0.0D" if self.type == DOUBLE else self._argument.sql
        return (self.filtered(f"{self.name}({x})"),)

    def lift(self, value: Value) -> Partial:
        if isinstance(value, float):
            return (None if math.isnan(value) else value + 0.0,)
        return (value,)

    def present(self, partial: Partial) -> Value:
        return partial[0]


@dataclass(frozen=True)
class Min(_Extreme):
    """min(x)."""

    name: ClassVar[str] = "min"

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", self.type, MIN),)


@dataclass(frozen=True)
class Max(_Extreme):
    """max(x)."""

    name: ClassVar[str] = "max"

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", self.type, MAX),)
