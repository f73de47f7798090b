"""Counts, totals and conditions: count, count_if, sum, avg, bool_or, bool_and."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import ClassVar

from headrace.aggregate.aggregate import Aggregate, Example, Partial, PartialColumn, Plain, Value
from headrace.aggregate.merges import EXACT, SUM, Merge
from headrace.aggregate.signature import ANY, CONDITION, NUMBER, Argument, Constant
from headrace.language.terms import Expression
from headrace.lazy import pa, pc
from headrace.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Type, decimal

# A sum of DECIMAL(p, s) is kept in 38 digits: ten to spare, so that no order of ten billion
# events can overflow on the way to a sum that fits.
WIDEST_SUM_PRECISION = 28
# Wider ones are kept in two parts, above and below 20 digits: each part has at least seven digits to spare.
LOW_DIGITS = 20
DOUBLE_TOLERANCE = 1e-9  # of the sum of magnitudes
EXACT_DOUBLE = 2**53  # whole numbers up to here are doubles without rounding


class Count(Aggregate):
    """count(*), or count(x): events, or those whose x is not NULL."""

    name = "count"
    takes = (Argument("expression", ANY, optional=True),)
    summary = "The number of events, or of those whose expression is not NULL."
    gives = "BIGINT"
    examples: ClassVar[tuple[Example, ...]] = (
        Example((), ((), ()), 2),
        Example((STRING,), (("a",), (None,), ("a",)), 2),
    )
    empty = 0
    runs_in_duckdb = True

    distinct: ClassVar[str | None] = "count_distinct"

    @property
    def type(self) -> Type:
        return BIGINT

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", BIGINT, SUM),)

    def spark_columns(self, x: str = "*") -> tuple[str, ...]:
        return (self.filtered(f"count({x})"),)

    duckdb_columns = spark_columns

    def lift(self, x: Value = True) -> Partial:
        return (0 if x is None else 1,)

    @property
    def subtracts(self) -> bool:
        return True

    def subtract(self, total: Partial, part: Partial) -> Partial:
        return ((total[0] or 0) - (part[0] or 0),)

    def subtract_columns(self, total: Sequence[str], part: Sequence[str]) -> tuple[str, ...]:
        return (f"coalesce({total[0]}, 0) - coalesce({part[0]}, 0)",)

    def present(self, partial: Partial) -> Value:
        return partial[0] or 0

    def present_arrow(self, partials: Sequence[pa.Array]) -> pa.Array | None:
        return pc.fill_null(partials[0], 0)


class CountIf(Count):
    """count_if(x): events for which x is true."""

    name = "count_if"
    distinct = None
    takes = (Argument("condition", CONDITION),)
    summary = "The number of events for which a condition is true."
    examples = (Example((BOOLEAN,), ((True,), (False,), (None,), (True,)), 2),)

    @classmethod
    def instead_of_distinct(cls, argument: str) -> str:
        return f"approx_count_distinct(x) FILTER (WHERE {argument})"

    def spark_columns(self, x: str = "true") -> tuple[str, ...]:
        return (self.filtered(f"count_if({x})"),)

    duckdb_columns = spark_columns

    def lift(self, x: Value = True) -> Partial:
        return (int(x is True),)


class _Total(Aggregate):
    """What sum and avg share: an exact sum of integers and DECIMALs, a bounded one of DOUBLEs."""

    takes = (Argument("expression", NUMBER),)
    runs_in_duckdb = True

    @classmethod
    def refuse(cls, arguments: Sequence[Expression], parameters: Sequence[Constant] = ()) -> str | None:
        reason = super().refuse(arguments, parameters)
        if reason:
            return reason
        of = arguments[0].type
        if of.name == "DECIMAL" and of.precision > WIDEST_SUM_PRECISION and of.scale > LOW_DIGITS:
            return (
                f"{cls.name} of {of} could overflow its 38 digits in one order of events and not "
                f"in another; cast to DECIMAL({WIDEST_SUM_PRECISION},{of.scale}) or narrower"
            )
        return None

    @property
    def _is_double(self) -> bool:
        return self.argument.type == DOUBLE

    @property
    def _is_wide(self) -> bool:
        return self.argument.type.name == "DECIMAL" and self.argument.type.precision > WIDEST_SUM_PRECISION

    @property
    def _low_end(self) -> int:
        """What the high part of a wide DECIMAL counts."""
        return int(10 ** (LOW_DIGITS - self.argument.type.scale))

    def _total(self, partial: Partial) -> Decimal:
        """The exact sum of integers or DECIMALs."""
        total = Decimal(partial[0])
        return EXACT.add(total, EXACT.multiply(Decimal(partial[2]), self._low_end)) if self._is_wide else total

    @property
    def _sum_type(self) -> Type:
        return DOUBLE if self._is_double else decimal(38, self.argument.type.scale)

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        columns = (PartialColumn("sum", self._sum_type, SUM), PartialColumn("count", BIGINT, SUM))
        if self._is_wide:
            return (*columns, PartialColumn("high", decimal(38), SUM))
        return (*columns, PartialColumn("magnitude", DOUBLE, SUM)) if self._is_double else columns

    def spark_columns(self, x: str) -> tuple[str, ...]:
        count = self.filtered(f"count({x})")
        if self._is_double:
            return self.filtered(f"sum({x})"), count, self.filtered(f"sum(abs({x}))")
        if self._is_wide:
            low = self.filtered(f"sum(({x}) % {self._low_end}BD)")
            high = self.filtered(f"sum(CAST(({x}) DIV {self._low_end}BD AS DECIMAL(18,0)))")
            return f"CAST({low} AS {self._sum_type})", count, f"CAST({high} AS DECIMAL(38,0))"
        return f"CAST({self._spark_exact_sum(x)} AS {self._sum_type})", count

    def duckdb_columns(self, x: str) -> tuple[str, ...]:
        if self._is_double:
            return self.spark_columns(x)
        if self._is_wide:
            end = f"CAST({self._low_end} AS {self._sum_type})"
            low = self.filtered(f"sum(({x}) % {end})")
            high = self.filtered(f"sum(CAST(({x}) - ({x}) % {end} AS HUGEINT) // {self._low_end})")
            count = self.filtered(f"count({x})")
            return f"CAST({low} AS {self._sum_type})", count, f"CAST({high} AS DECIMAL(38,0))"
        # DuckDB adds integers up in 128 bits, which no number of events can overflow.
        return f"CAST({self.filtered(f'sum({x})')} AS {self._sum_type})", self.filtered(f"count({x})")

    def _spark_exact_sum(self, x: str) -> str:
        if self.argument.type.name == "INT":
            return self.filtered(f"sum(CAST({x} AS BIGINT))")
        if self.argument.type.name == "BIGINT":
            # Two sums of 32-bit halves cannot overflow a BIGINT below 2^31 events a job, and
            # are many times faster than Spark's DECIMAL sum.
            high = self.filtered(f"sum(shiftright({x}, 32))")
            low = self.filtered(f"sum(({x}) & 4294967295L)")
            return f"CAST({high} AS DECIMAL(20,0)) * 4294967296BD + CAST({low} AS DECIMAL(20,0))"
        return self.filtered(f"sum({x})")

    def lift(self, x: Value) -> Partial:
        if x is None:
            return self.zero
        if self._is_double:
            return x, 1, abs(x)
        if self._is_wide:
            low = EXACT.remainder(Decimal(x), Decimal(self._low_end))
            return low, 1, EXACT.divide_int(EXACT.subtract(Decimal(x), low), Decimal(self._low_end))
        return Decimal(x), 1

    @property
    def subtracts(self) -> bool:
        # A DOUBLE loses small addends when it is large.
        return not self._is_double and not self._is_wide

    def subtract(self, total: Partial, part: Partial) -> Partial:
        if not part[1]:
            return total
        count = total[1] - part[1]
        return (EXACT.subtract(Decimal(total[0]), Decimal(part[0])), count) if count else self.zero

    def subtract_columns(self, total: Sequence[str], part: Sequence[str]) -> tuple[str, ...]:
        count = f"coalesce({total[1]}, 0) - coalesce({part[1]}, 0)"
        return f"CASE WHEN {count} <> 0 THEN coalesce({total[0]} - {part[0]}, {total[0]}) END", count

    def agrees(self, a: Partial, b: Partial) -> bool:
        if not self._is_double or a[0] is None or b[0] is None:
            return bool(self.present(a) == self.present(b))
        if not math.isfinite(a[0]) or not math.isfinite(b[0]):
            return str(a[0]) == str(b[0])
        return bool(a[1] == b[1] and abs(a[0] - b[0]) <= DOUBLE_TOLERANCE * max(a[2], b[2]))


class Sum(_Total):
    """sum(x); NULL if every x is NULL. Integers are summed without overflow."""

    name = "sum"
    summary = "The sum of an expression."
    gives = "BIGINT of integers, DECIMAL(38,0) where one does not fit; DECIMAL; DOUBLE"
    examples = (Example((INT,), ((2,), (None,), (3,)), 5), Example((DOUBLE,), ((None,),), None))

    @property
    def type(self) -> Type:
        return self._sum_type

    @property
    def narrow_type(self) -> Type | None:
        return BIGINT if self.argument.type.is_integer else None

    @property
    def spark_type(self) -> Type:
        of = self.argument.type
        return decimal(min(of.precision + 10, 38), of.scale) if of.name == "DECIMAL" else self.narrow_type or self.type

    def present(self, partial: Partial) -> Value:
        if partial[0] is None or self._is_double:
            return partial[0]
        if self.argument.type.is_integer:
            return int(partial[0])
        total = self._total(partial)
        return total if abs(total) < 10 ** (38 - self.type.scale) else None  # NULL where it does not fit, as in Spark

    def present_arrow(self, partials: Sequence[pa.Array]) -> pa.Array | None:
        return None if self._is_wide else partials[0]


class Avg(_Total):
    """avg(x): the sum over the count of those that are not NULL."""

    name = "avg"
    summary = "The mean of an expression."
    gives = "DOUBLE; DECIMAL of a DECIMAL, with four more digits"
    examples = (Example((INT,), ((2,), (None,), (3,)), 2.5), Example((INT,), ((None,),), None))
    other_names = ("mean",)

    @property
    def type(self) -> Type:
        if self.argument.type.name == "DECIMAL":  # Spark's rule: four more digits
            return decimal(38, min(self.argument.type.scale + 4, 38))
        return DOUBLE

    @property
    def spark_type(self) -> Type:
        of = self.argument.type
        return decimal(min(of.precision + 4, 38), min(of.scale + 4, 38)) if of.name == "DECIMAL" else DOUBLE

    def present(self, partial: Partial) -> Value:
        total, count = partial[0], partial[1]
        if total is None or not count:
            return None
        if self._is_double:
            return total / count
        mean = EXACT.divide(self._total(partial), Decimal(count))
        if self.type == DOUBLE:
            return float(mean)
        mean = mean.quantize(Decimal(1).scaleb(-self.type.scale), ROUND_HALF_UP, EXACT)
        return mean if abs(mean) < 10 ** (38 - self.type.scale) else None

    def present_arrow(self, partials: Sequence[pa.Array]) -> pa.Array | None:
        """One division of two exact doubles; None where the sum is not one, or the mean is a DECIMAL."""
        total, count = partials[0], partials[1]
        if self.type != DOUBLE:
            return None
        if not pa.types.is_floating(total.type):
            largest = pc.max(pc.abs(total)).as_py()
            if largest is not None and largest > EXACT_DOUBLE:
                return None
            total = total.cast(pa.float64())
        some = pc.if_else(pc.equal(count, 0), None, count)
        return pc.divide(total, some.cast(pa.float64()))


class _Logical(Plain):
    """What bool_or and bool_and share: one value, NULL skipped."""

    takes = (Argument("expression", CONDITION),)
    gives = "BOOLEAN"
    column_merge: ClassVar[Merge]
    runs_in_duckdb = True

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
    summary = "True if an expression is true for at least one event."
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
    summary = "True if an expression is true for every event where it is not NULL."
    examples = (
        Example((BOOLEAN,), ((True,), (None,), (False,)), False),
        Example((BOOLEAN,), ((True,), (None,)), True),
        Example((BOOLEAN,), ((None,),), None),
    )
    other_names = ("every",)
    column_merge = Merge("and", operator.and_, "{0} AND {1}", "bool_and({0})", chooses=True)
