"""What an aggregate is: a commutative monoid with a Spark face and a Python face."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, ClassVar

from headrace.types import Expression, Type

Value = Any
Partial = tuple[Any, ...]  # one item per column of the aggregate; None is the identity of every merge


@dataclass(frozen=True)
class Merge:
    """How one column of partials merges: associative, commutative, NULL its identity."""

    name: str
    pair: Callable[[Any, Any], Any]  # two values, neither None
    sql: str  # the same for two columns {0} and {1} of a store, NULL-safe by the caller
    fold: str | None  # the store's SQL aggregate over {0}; None: `pair` over the listed values


EXACT = Context(prec=76)  # Python's own context rounds to 28 digits


def _add(a: Any, b: Any) -> Any:
    return EXACT.add(a, b) if isinstance(a, Decimal) else a + b


SUM = Merge("sum", _add, "{0} + {1}", "sum({0})")
MIN = Merge("min", min, "least({0}, {1})", "min({0})")
MAX = Merge("max", max, "greatest({0}, {1})", "max({0})")


@dataclass(frozen=True)
class PartialColumn:
    """A column that partials of an aggregate occupy in the store."""

    suffix: str  # "" for an aggregate with one column
    type: Type
    merge: Merge


@dataclass(frozen=True)
class Aggregate(ABC):
    """A summary that can be built in pieces, in any order, and merged.

    `where` is SQL's FILTER: events for which it is not true are not lifted.
    """

    expression: Expression | None = None
    where: Expression | None = None

    name: ClassVar[str]
    approximate: ClassVar[str | None] = None  # the stated error, in words, if there is one

    @classmethod
    @abstractmethod
    def refuse(cls, expression: Expression | None) -> str | None:
        """Why this aggregate cannot take the expression, and what to write instead; or None."""

    @property
    @abstractmethod
    def type(self) -> Type:
        """The type of the presented value."""

    @property
    @abstractmethod
    def columns(self) -> tuple[PartialColumn, ...]:
        """The columns of a partial."""

    @property
    def zero(self) -> Partial:
        """The partial of no event: `merge(zero, p) == p`."""
        return (None,) * len(self.columns)

    @abstractmethod
    def spark_columns(self) -> tuple[str, ...]:
        """Spark SQL for each column: the merged partial of a group of events."""

    @abstractmethod
    def lift(self, value: Value) -> Partial:
        """The partial of one event whose expression has this value (None is NULL)."""

    def merge(self, a: Partial, b: Partial) -> Partial:
        """The partial of both."""
        return tuple(
            y if x is None else x if y is None else column.merge.pair(x, y)
            for column, x, y in zip(self.columns, a, b, strict=True)
        )

    @abstractmethod
    def present(self, partial: Partial) -> Value:
        """What a reader sees."""

    def agrees(self, a: Partial, b: Partial) -> bool:
        """Whether two partials say the same, within the aggregate's stated tolerance."""
        return bool(self.present(a) == self.present(b))

    def filtered(self, spark_aggregate: str) -> str:
        """The Spark aggregate over the events that `where` lets pass."""
        return f"{spark_aggregate} FILTER (WHERE {self.where.sql})" if self.where else spark_aggregate
