"""How columns of partials merge: in Python, and in a store's SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

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

    def merge(self, values: Sequence[Any]) -> Any:
        """The merge of one or more values, none of them None."""
        if len(values) == 1:
            return values[0]
        return self.many(values) if self.many else reduce(self.pair, values)


def _add(a: Any, b: Any) -> Any:
    return EXACT.add(a, b) if isinstance(a, Decimal) else a + b


def _add_all(values: Sequence[Any]) -> Any:
    return sum(values) if isinstance(values[0], int) else reduce(_add, values)


SUM = Merge("sum", _add, "{0} + {1}", "sum({0})", _add_all)
MIN = Merge("min", min, "least({0}, {1})", "min({0})", min)
MAX = Merge("max", max, "greatest({0}, {1})", "max({0})", max)
