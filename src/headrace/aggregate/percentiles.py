"""Percentiles by a KLL sketch, in the binary format of Apache DataSketches, which Spark's own function writes too."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from headrace.aggregate.aggregate import Aggregate, ArrowFunction, Example, Partial, PartialColumn, Value
from headrace.aggregate.kernels import Lists, binary, join
from headrace.aggregate.merges import EXACT, Merge
from headrace.aggregate.signature import Argument, ArgumentKind, Constant, Parameter, whole
from headrace.language.terms import Expression
from headrace.lazy import datasketches, np, pa
from headrace.types import BINARY, DOUBLE, INT, Type, array

ACCURACY, MOST_ACCURACY = 100, 10_000
# A sketch is made finer than its error says by this factor. The audit compares millions of pairs of sketches, whose
# errors are random: at twice the stated error, none of them is to differ by chance.
MARGIN = 1.5
# An error of 2.296 / k^0.9723 is what DataSketches measured for 99 of 100 sketches.
ERROR_FACTOR, ERROR_POWER = 2.296, 0.9723
LEAST_K = 8
FORMAT = 5 | 1 << 8 | 15 << 16 | 8 << 48  # 5 integers before the levels, version, family, least size of a level
SLACK = 1e-12  # engines may convert a DECIMAL to neighbouring doubles
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ORDERED = ArgumentKind(
    "a number, DATE or TIMESTAMP",
    ("INT", "BIGINT", "DOUBLE", "DECIMAL", "DATE", "TIMESTAMP"),
    fix="cast it: CAST({x} AS DOUBLE)",
)


def merge_sketches(sketches: Sequence[bytes]) -> bytes:
    """The sketch of all values."""
    total = datasketches.kll_doubles_sketch.deserialize(sketches[0])
    for sketch in sketches[1:]:
        total.merge(datasketches.kll_doubles_sketch.deserialize(sketch))
    return bytes(total.serialize())


KLL = Merge("kll", lambda a, b: merge_sketches((a, b)), "kll_union({0}, {1})", None, merge_sketches)


def sketch_lists(lists: pa.Array, k: int) -> pa.Array:
    """A sketch of each list of numbers.

    One of up to `k` numbers holds them as they are: such sketches, which are most, are written for all lists at once.
    """
    each = Lists.of(lists)
    if not len(each.counts):
        return pa.nulls(len(lists), pa.binary())
    values, starts = np.array(each.values), each.ends[:-1]  # a copy: a sketch takes no array that it could not write to
    heads = np.zeros((len(starts), 5), dtype=np.int64)
    heads[:, 0] = FORMAT | k << 32
    heads[:, 1] = each.counts
    heads[:, 2] = k | 1 << 16 | (k - each.counts) << 32  # one level, which is filled from its end
    heads[:, 3] = np.minimum.reduceat(values, starts).view(np.int64)
    heads[:, 4] = np.maximum.reduceat(values, starts).view(np.int64)
    sketches = join(binary(heads, heads.shape[1] * 8), binary(values, 8, each.ends))
    is_large = each.counts > k
    large = []
    for at in np.flatnonzero(is_large):
        sketch = datasketches.kll_doubles_sketch(k)
        sketch.update(values[each.ends[at] : each.ends[at + 1]])
        large.append(bytes(sketch.serialize()))
    return each.spread(sketches, is_large, large)


class ApproxPercentile(Aggregate):
    """approx_percentile(x, 0.95): the smallest x that at least 95 of 100 are not above; NULL and NaN skipped."""

    name = "approx_percentile"
    takes = (Argument("expression", ORDERED),)
    constants = (
        Parameter(
            "percentage",
            float,
            "a number from 0 to 1, or several as in array(0.5, 0.95)",
            (0.5, (0.0, 0.9, 1.0)),
            several=True,
        ),
        Parameter("accuracy", int, f"a whole number from 1 to {MOST_ACCURACY}", (50,), optional=True),
    )
    summary = (
        "The value that the given share of all values does not exceed; 0.5 gives the median. For several shares, an "
        "array. `accuracy` n sets an error of 1/n."
    )
    gives = "the type of the expression; an ARRAY of it for several percentages"
    examples = (
        Example((INT,), ((1,), (2,), (None,), (3,), (4,), (4,)), 3, (0.5,)),
        Example((INT,), ((1,), (2,), (3,), (4,), (4,)), [1, 3, 4], ((0.0, 0.5, 1.0),)),
        Example((DOUBLE,), ((None,),), None, (0.5,)),
    )
    other_names = ("percentile_approx", "approx_percentile_cont")
    approximate = (
        f"the share of values up to it is within 1/accuracy of what was asked ({100 / ACCURACY:g} % unless given) "
        "in 99 of 100 answers; exact below about 400 values"
    )
    functions = (KLL,)
    runs_in_duckdb = True

    @classmethod
    def refuse(cls, arguments: Sequence[Expression], parameters: Sequence[Constant] = ()) -> str | None:
        reason = super().refuse(arguments, parameters)
        if reason:
            return reason
        wrong = [share for share in _shares(parameters[0]) if not 0 <= share <= 1]
        if wrong:
            percent = f"; for {wrong[0]:g} % write {wrong[0] / 100:g}" if 1 < wrong[0] <= 100 else ""
            return f"approx_percentile takes a number from 0 to 1 as 'percentage', found {wrong[0]:g}{percent}"
        if len(parameters) > 1 and not 1 <= _accuracy(parameters) <= MOST_ACCURACY:
            return (
                f"approx_percentile takes a whole number from 1 to {MOST_ACCURACY} as 'accuracy', "
                f"found {parameters[1]}; 1/accuracy is the error, and {ACCURACY} is used if it is left out"
            )
        return None

    @property
    def type(self) -> Type:
        return array(self.argument.type) if isinstance(self.parameters[0], tuple) else self.argument.type

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", BINARY, KLL),)

    @property
    def stored_as(self) -> Aggregate:
        """One sketch tells all percentages."""
        return replace(self, parameters=self.parameters[1:])

    @property
    def k(self) -> int:
        """The size of the sketch."""
        finer = MARGIN * _accuracy(self.parameters)
        return max(LEAST_K, math.ceil(math.pow(ERROR_FACTOR * finer, 1 / ERROR_POWER)))

    def spark_columns(self, x: str) -> tuple[str, ...]:
        value = {
            "DATE": f"CAST(unix_date({x}) AS DOUBLE)",
            "TIMESTAMP": f"CAST(unix_micros({x}) AS DOUBLE)",
            "DOUBLE": f"nanvl({x}, NULL) + 0.0D",
        }.get(self.argument.type.name, f"CAST({x} AS DOUBLE)")
        return (self.or_null(f"kll_sketch_agg_double({value}, {self.k})", value),)

    def duckdb_columns(self, x: str) -> tuple[str, ...]:
        value = {
            "DATE": f"CAST({x} - DATE '1970-01-01' AS DOUBLE)",
            "TIMESTAMP": f"CAST(epoch_us({x}) AS DOUBLE)",
            "DOUBLE": f"CASE WHEN NOT isnan({x}) THEN {x} + CAST(0 AS DOUBLE) END",
        }.get(self.argument.type.name, f"CAST({x} AS DOUBLE)")
        return (f"{self.lifts[0].name}({self.of_values(f'list({value})', value)})",)

    @property
    def lifts(self) -> tuple[ArrowFunction, ...]:
        run = functools.partial(sketch_lists, k=self.k)
        return (ArrowFunction(f"kll_sketch_{self.k}_of", DOUBLE, BINARY, run, of_list=True),)

    def lift(self, x: Value) -> Partial:
        value = self._number(x)
        if value is None or math.isnan(value):
            return (None,)
        sketch = datasketches.kll_doubles_sketch(self.k)
        sketch.update(value + 0.0)
        return (bytes(sketch.serialize()),)

    def _number(self, x: Value) -> float | None:
        if x is None:
            return None
        match self.argument.type.name:
            case "DATE":
                return float((x - EPOCH.date()).days)
            case "TIMESTAMP":
                return float((x - EPOCH) // timedelta(microseconds=1))
        return float(x)

    def present(self, partial: Partial) -> Value:
        if partial[0] is None:
            return None
        values = list(map(self._value, _open(partial[0]).get_quantiles(_shares(self.parameters[0]), True)))
        return values if isinstance(self.parameters[0], tuple) else values[0]

    def _value(self, number: float) -> Value:
        """The value that a number of the sketch stands for; of wide types it may be rounded, and then too large."""
        of = self.argument.type
        match of.name:
            case "INT" | "BIGINT":
                bound = 1 << (31 if of.name == "INT" else 63)
                return max(-bound, min(bound - 1, round(number)))
            case "DECIMAL":
                most = Decimal(10**of.precision - 1).scaleb(-of.scale)
                step = Decimal(1).scaleb(-of.scale)
                return max(-most, min(most, Decimal(number).quantize(step, ROUND_HALF_UP, EXACT)))
            case "DATE":
                return (EPOCH + timedelta(days=number)).date()
            case "TIMESTAMP":
                return EPOCH + timedelta(microseconds=number)
        return number

    def agrees(self, a: Partial, b: Partial) -> bool:
        if a[0] is None or b[0] is None:
            return a[0] is b[0]
        one, other = _open(a[0]), _open(b[0])
        if one.n != other.n:
            return False
        error = 2 / _accuracy(self.parameters) if one.is_estimation_mode() or other.is_estimation_mode() else 0
        shares = _shares(self.parameters[0])
        return _is_near(one, other, shares, error) and _is_near(other, one, shares, error)


def _is_near(one: Any, other: Any, shares: Sequence[float], error: float) -> bool:
    """Whether what the first sketch says has nearly the rank in the other that was asked for."""
    for share, value in zip(shares, one.get_quantiles(shares, True), strict=True):
        slack = abs(value) * SLACK
        if other.get_rank(value - slack, False) - error > share + SLACK:
            return False
        if other.get_rank(value + slack, True) + error < share - SLACK:
            return False
    return True


def _open(sketch: bytes) -> Any:
    return datasketches.kll_doubles_sketch.deserialize(sketch)


def _shares(percentage: Constant) -> list[float]:
    return list(map(float, percentage if isinstance(percentage, tuple) else (percentage,)))


def _accuracy(parameters: Sequence[Constant]) -> int:
    return whole(parameters[1]) if len(parameters) > 1 else ACCURACY
