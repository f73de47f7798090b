"""How columns of partials merge: in Python, and in a store's SQL."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache, reduce
from itertools import chain
from typing import Any

from headrace.lazy import pa

EXACT = Context(prec=76)  # Python's own context rounds to 28 digits


@dataclass(frozen=True)
class Merge:
    """How one column of partials merges: associative, commutative, NULL its identity."""

    name: str
    pair: Callable[[Any, Any], Any]  # two values, neither None
    sql: str  # the same for two columns {0} and {1} of a store, NULL-safe by the caller
    fold: str | None  # the store's SQL aggregate over {0}; None: a function that the store registers, for BINARY only
    many: Callable[[Sequence[Any]], Any] | None = None  # the same for two or more values, if that is faster
    pairs: Callable[[pa.Array, pa.Array], pa.Array] | None = None  # `pair` over arrays without NULL
    lists: Callable[[pa.Array], pa.Array] | None = None  # `many` over lists
    chooses: bool = False  # the result is one of the values: without any of the others it is the same

    def merge(self, values: Sequence[Any]) -> Any:
        """The merge of one or more values, none of them None."""
        if len(values) == 1:
            return values[0]
        return self.many(values) if self.many else reduce(self.pair, values)


def order_of(value: Any) -> Any:
    """A key by which values sort as in DuckDB: NaN behind all numbers and equal to itself, NULL behind all values."""
    match value:
        case None:
            return (1,)
        case float():
            return (0, True, 0.0) if math.isnan(value) else (0, False, value)
        case dict():
            return (0, *map(order_of, value.values()))
        case list() | tuple():
            return (0, tuple(map(order_of, value)))
    return (0, value)


def _add(a: Any, b: Any) -> Any:
    return EXACT.add(a, b) if isinstance(a, Decimal) else a + b


def _add_all(values: Sequence[Any]) -> Any:
    return sum(values) if isinstance(values[0], int) else reduce(_add, values)


SUM = Merge("sum", _add, "{0} + {1}", "sum({0})", _add_all)
MIN = Merge("min", min, "least({0}, {1})", "min({0})", min, chooses=True)
MAX = Merge("max", max, "greatest({0}, {1})", "max({0})", max, chooses=True)

# Columns of nested types. A fold over lists takes those that are not NULL: without any, its value is NULL.
GATHERED = "flatten(list({0}) FILTER (WHERE {0} IS NOT NULL))"
JOINED = "{0} || {1}"  # NULL where either is; list_concat would make an empty list of two that are NULL

GREATEST = Merge("greatest", lambda a, b: max(a, b, key=order_of), "greatest({0}, {1})", "max({0})", chooses=True)
LEAST = Merge("least", lambda a, b: min(a, b, key=order_of), "least({0}, {1})", "min({0})", chooses=True)


@lru_cache
def first_of(count: int, *, greatest: bool) -> Merge:
    """Lists of at most so many values, sorted: of all, the greatest (the greatest first) or the least."""

    def many(lists: Sequence[Any]) -> Any:
        return sorted(chain.from_iterable(lists), key=order_of, reverse=greatest)[:count]

    order = ", 'DESC'" if greatest else ""
    sql, fold = (f"list_sort({values}{order})[1:{count}]" for values in (JOINED, GATHERED))
    return Merge("first_of", lambda a, b: many((a, b)), sql, fold, many)


@lru_cache
def bounded(most: int, *, distinct: bool) -> Merge:
    """Sorted lists of at most so many values; with `distinct`, each value once.

    More than these are an empty list, whatever it is merged with: no events at all are NULL.
    """

    def many(lists: Sequence[Any]) -> Any:
        if not all(lists):
            return []
        values = [(order_of(value), value) for value in chain.from_iterable(lists)]
        values = list(dict(values).items()) if distinct else values
        return [value for _, value in sorted(values, key=lambda pair: pair[0])] if len(values) <= most else []

    full = "len({0}) = 0 OR len({1}) = 0", "bool_or(len({0}) = 0)"
    sql, fold = (
        f"CASE WHEN {any_full} THEN [] ELSE {bounded_sql(values, most, distinct=distinct)} END"
        for any_full, values in zip(full, (JOINED, GATHERED), strict=True)
    )
    return Merge("bounded", lambda a, b: many((a, b)), sql, fold, many)


def bounded_sql(values: str, most: int, *, distinct: bool = False) -> str:
    """DuckDB's SQL for a list in the form that `bounded` merges."""
    values = f"list_distinct({values})" if distinct else values
    return f"list_transform([{values}], lambda _v: CASE WHEN len(_v) > {most} THEN [] ELSE list_sort(_v) END)[1]"
