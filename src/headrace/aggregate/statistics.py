"""Spread and correlation of numbers: stddev, variance, corr, covar, each from means and co-moments that merge."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headrace.aggregate.aggregate import Aggregate, Example, Partial, PartialColumn, Value
from headrace.aggregate.merges import Merge
from headrace.aggregate.numeric import DOUBLE_TOLERANCE
from headrace.aggregate.signature import NUMBER, Argument
from headrace.types import BIGINT, DOUBLE, INT, Type, struct

# Beyond it a square is no DOUBLE that could be added up in every order; a number beyond it counts as NaN does.
LARGEST = 1e150
ONE = ("x",)
TWO = ("x", "y")
Moments = Mapping[str, Any]


def _pairs(variables: Sequence[str]) -> list[tuple[str, str]]:
    """What there are sums of products of: each number with itself, and one with the other."""
    return [(a, b) for at, a in enumerate(variables) for b in variables[at:]]


def _merge_pair(a: Moments, b: Moments) -> Moments:
    """Chan's update: it never subtracts squares of means, which could be large beside the spread around them."""
    merged: dict[str, Any] = {"n": a["n"] + b["n"], "odd": a["odd"] + b["odd"]}
    share = b["n"] / (merged["n"] or 1)
    variables = [name[-1] for name in a if name.startswith("mean")]
    for name in variables:
        merged[f"mean_{name}"] = a[f"mean_{name}"] + (b[f"mean_{name}"] - a[f"mean_{name}"]) * share
    for x, y in _pairs(variables):
        first, second = (b[f"mean_{name}"] - a[f"mean_{name}"] for name in (x, y))
        merged[x + y] = a[x + y] + b[x + y] + first * second * share * a["n"]
    return merged


def _merge_sql(variables: Sequence[str], a: str, b: str) -> str:
    n = f"({a}.n + {b}.n)"
    share = f"({b}.n / CAST(greatest({n}, 1) AS DOUBLE))"
    delta = {name: f"({b}.mean_{name} - {a}.mean_{name})" for name in variables}
    fields = {"n": n, "odd": f"{a}.odd + {b}.odd"}
    fields |= {f"mean_{name}": f"{a}.mean_{name} + {delta[name]} * {share}" for name in variables}
    for x, y in _pairs(variables):
        fields[x + y] = f"{a}.{x + y} + {b}.{x + y} + {delta[x]} * {delta[y]} * {share} * {a}.n"
    return f"struct_pack({', '.join(f'{name} := {sql}' for name, sql in fields.items())})"


def _merge(name: str, variables: Sequence[str]) -> Merge:
    pair = f"CASE WHEN {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN {_merge_sql(variables, '{0}', '{1}')} END"
    some = "list({0}) FILTER (WHERE {0} IS NOT NULL)"
    return Merge(name, _merge_pair, pair, f"list_reduce({some}, lambda _a, _b: {_merge_sql(variables, '_a', '_b')})")


MERGES = {ONE: _merge("moments", ONE), TWO: _merge("co_moments", TWO)}


class _Statistic(Aggregate):
    """What they share: how many events have numbers, the means, and the sums of products of deviations from them.

    Events with NULL are skipped. `odd` are those with NaN, Infinity or a number beyond `LARGEST`: their result is NaN.
    """

    gives = "DOUBLE"
    variables: ClassVar[tuple[str, ...]]
    sample: ClassVar[bool]  # whether one is taken off the number of events: of one event it is NULL
    runs_in_duckdb = True

    @property
    def type(self) -> Type:
        return DOUBLE

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        counts = [("n", BIGINT), ("odd", BIGINT)]
        doubles = [*(f"mean_{name}" for name in self.variables), *(x + y for x, y in _pairs(self.variables))]
        return (PartialColumn("", struct(*counts, *((name, DOUBLE) for name in doubles)), MERGES[self.variables]),)

    def spark_columns(self, *arguments: str) -> tuple[str, ...]:
        fields = self._fields(arguments, f"{LARGEST!r}D")
        row = ", ".join(f"'{name}', {sql}" for name, sql in fields.items())
        return (f"CASE WHEN {self._count(arguments)} > 0 THEN named_struct({row}) END",)

    def duckdb_columns(self, *arguments: str) -> tuple[str, ...]:
        fields = self._fields(arguments, f"CAST('{LARGEST!r}' AS DOUBLE)")
        row = ", ".join(f"{name} := {sql}" for name, sql in fields.items())
        return (f"CASE WHEN {self._count(arguments)} > 0 THEN struct_pack({row}) END",)

    def _count(self, arguments: Sequence[str]) -> str:
        return self.filtered(f"count_if({' AND '.join(f'({x}) IS NOT NULL' for x in arguments)})")

    def _fields(self, arguments: Sequence[str], largest: str) -> dict[str, str]:
        """SQL that both engines read alike. The mean of equal numbers is that number, which a sum may miss."""
        doubles = [f"CAST({x} AS DOUBLE)" for x in arguments]
        usable = " AND ".join(f"abs({x}) <= {largest}" for x in doubles)
        x_of = {name: f"CASE WHEN {usable} THEN {x} END" for name, x in zip(self.variables, doubles, strict=True)}
        count = self.filtered(f"count({x_of['x']})")
        fields = {"n": count, "odd": f"{self._count(arguments)} - {count}"}
        same, zero = {}, "CAST(0 AS DOUBLE)"
        for name, x in x_of.items():
            least, most = self.filtered(f"min({x})"), self.filtered(f"max({x})")
            same[name] = f"{least} = {most}"
            mean = f"CASE WHEN {same[name]} THEN {least} ELSE {self.filtered(f'avg({x})')} END"
            fields[f"mean_{name}"] = f"coalesce({mean}, {zero})"
        for a, b in _pairs(self.variables):
            mean = self.filtered(f"var_pop({x_of[a]})" if a == b else f"covar_pop({x_of[a]}, {x_of[b]})")
            moment = f"CASE WHEN {same[a]} OR {same[b]} THEN {zero} ELSE {mean} * {count} END"
            fields[a + b] = f"coalesce({moment}, {zero})"
        return fields

    def lift(self, *arguments: Value) -> Partial:
        if None in arguments:
            return (None,)
        numbers = list(map(float, arguments))
        usable = all(abs(number) <= LARGEST for number in numbers)
        partial: dict[str, Any] = {"n": int(usable), "odd": int(not usable)}
        for name, number in zip(self.variables, numbers, strict=True):
            partial[f"mean_{name}"] = number if usable else 0.0
        return (partial | dict.fromkeys((x + y for x, y in _pairs(self.variables)), 0.0),)

    def present(self, partial: Partial) -> Value:
        of = partial[0]
        if of is None or of["n"] + of["odd"] <= self.sample:
            return None
        return math.nan if of["odd"] else self._result(of, of["n"] - self.sample)

    @abstractmethod
    def _result(self, of: Moments, n: int) -> Value:
        """The value, of moments over so many events."""

    def agrees(self, a: Partial, b: Partial) -> bool:
        """Whether means and deviations differ by less than the tolerance of the root mean square."""
        one, other = a[0], b[0]
        if one is None or other is None:
            return one is other
        if (one["n"], one["odd"]) != (other["n"], other["odd"]) or one["odd"] or not one["n"]:
            return (one["n"], one["odd"]) == (other["n"], other["odd"])
        n = one["n"]
        spread = {x: max(math.sqrt(max(of[x + x], 0.0) / n) for of in (one, other)) for x in self.variables}
        size = {x: math.hypot(max(abs(of[f"mean_{x}"]) for of in (one, other)), spread[x]) for x in self.variables}
        means = all(abs(one[f"mean_{x}"] - other[f"mean_{x}"]) <= DOUBLE_TOLERANCE * size[x] for x in self.variables)
        return means and all(
            abs(one[p + q] - other[p + q]) / n
            <= DOUBLE_TOLERANCE * (spread[p] * size[q] + spread[q] * size[p] + DOUBLE_TOLERANCE * size[p] * size[q])
            for p, q in _pairs(self.variables)
        )


class VarPop(_Statistic):
    """var_pop(x): the mean of the squared deviations from the mean."""

    name = "var_pop"
    takes = (Argument("expression", NUMBER),)
    summary = "The variance of all values: the mean of the squared deviations from their mean."
    examples = (Example((INT,), ((1,), (3,), (None,)), 1.0), Example((INT,), ((None,),), None))
    variables = ONE
    sample = False

    @property
    def stored_as(self) -> Aggregate:
        """Variances and standard deviations of one expression are told by the same moments."""
        return VarPop(self.arguments, self.where)

    def _result(self, of: Moments, n: int) -> Value:
        return of["xx"] / n


class VarSamp(VarPop):
    """var_samp(x): the variance that a sample lets expect of the whole."""

    name = "var_samp"
    summary = (
        "The variance estimated from a sample: squared deviations divided by one less than their number. "
        "NULL for a single value."
    )
    examples = (Example((INT,), ((1,), (3,), (None,)), 2.0), Example((INT,), ((1,),), None))
    sample = True


class Variance(VarSamp):
    """variance(x), which is var_samp(x)."""

    name = "variance"
    summary = "An alias of var_samp."


class StddevPop(VarPop):
    """stddev_pop(x): the square root of var_pop(x)."""

    name = "stddev_pop"
    summary = "The standard deviation of all values: the square root of var_pop."
    examples = (Example((INT,), ((1,), (3,), (None,)), 1.0), Example((INT,), ((None,),), None))

    def _result(self, of: Moments, n: int) -> Value:
        return math.sqrt(of["xx"] / n)


class StddevSamp(StddevPop):
    """stddev_samp(x): the square root of var_samp(x)."""

    name = "stddev_samp"
    summary = "The standard deviation estimated from a sample: the square root of var_samp. NULL for a single value."
    examples = (Example((INT,), ((1,), (9,), (5,)), 4.0), Example((INT,), ((1,),), None))
    sample = True


class Stddev(StddevSamp):
    """stddev(x), which is stddev_samp(x)."""

    name = "stddev"
    summary = "An alias of stddev_samp."


class CovarPop(_Statistic):
    """covar_pop(x, y): the mean of the products of both deviations."""

    name = "covar_pop"
    takes = (Argument("y", NUMBER), Argument("x", NUMBER))
    summary = "The covariance of two expressions, over the events where neither is NULL."
    examples = (
        Example((INT, INT), ((1, 2), (3, 6), (None, 5), (5, None)), 2.0),
        Example((INT, INT), ((None, 1),), None),
    )
    variables = TWO
    sample = False

    @property
    def stored_as(self) -> Aggregate:
        """One set of moments tells the covariance and the correlation."""
        return CovarPop(self.arguments, self.where)

    def _result(self, of: Moments, n: int) -> Value:
        return of["xy"] / n


class CovarSamp(CovarPop):
    """covar_samp(x, y): the covariance that a sample lets expect of the whole."""

    name = "covar_samp"
    summary = "The covariance estimated from a sample. NULL for a single event."
    examples = (Example((INT, INT), ((1, 2), (3, 6)), 4.0), Example((INT, INT), ((1, 1),), None))
    sample = True
    other_names = ("covariance",)


class Corr(CovarPop):
    """corr(x, y): the covariance over both standard deviations."""

    name = "corr"
    summary = (
        "The correlation of two expressions, from -1 to 1. NULL for a single event, or if one of them is constant."
    )
    examples = (Example((INT, INT), ((1, -2), (3, -6), (None, 1)), -1.0), Example((INT, INT), ((1, 1), (1, 2)), None))
    sample = True

    def _result(self, of: Moments, n: int) -> Value:
        spreads = math.sqrt(of["xx"]) * math.sqrt(of["yy"])
        return of["xy"] / spreads if spreads else None
