"""The exact rows of the shop's views, by plain Python over all true events at once.

It uses no code of Headrace's parser and aggregates, since it checks them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from headrace.tools.demo.traffic import PATIENCE_US, ShopOrder, Visit

MINUTE_US = 60_000_000
Event = Any  # a Visit or an Order, as the view's stream has it
Row = dict[str, Any]
Column = Callable[[list[Event]], Any]


@dataclass(frozen=True)
class Near:
    """A DOUBLE with a tolerance, since a sum depends on the order of its addends."""

    value: float
    tolerance: float


@dataclass(frozen=True)
class Distinct:
    """The exact number of distinct values; the served value is an estimate."""

    value: int


@dataclass(frozen=True)
class ViewRule:
    """A view of shop.sql in Python."""

    view: str
    stream: str
    keys: dict[str, Callable[[Event], Any]]
    columns: dict[str, Column]
    where: Callable[[Event], bool] = lambda event: True
    size_us: int | None = None
    slide_us: int | None = None

    def rows(self, events: Iterable[Event]) -> dict[tuple[Any, ...], Row]:
        """Every row of the view, by (window start in µs or None, *keys)."""
        groups: dict[tuple[Any, ...], list[Event]] = {}
        for event in events:
            if self.where(event):
                keys = tuple(key(event) for key in self.keys.values())
                for start in self._windows(event.at_us):
                    groups.setdefault((start, *keys), []).append(event)
        return {
            group: {name: column(members) for name, column in self.columns.items()} for group, members in groups.items()
        }

    def _windows(self, at_us: int) -> Sequence[int | None]:
        """The starts of the windows that contain this time."""
        if self.size_us is None:
            return (None,)
        slide = self.slide_us or self.size_us
        last = at_us - at_us % slide
        return range(last, at_us - self.size_us, -slide)

    def is_settled(self, start_us: int, newest_us: int) -> bool:
        """Return whether the window is settled."""
        assert self.size_us is not None, "a view without window has nothing to settle"
        return start_us + self.size_us + PATIENCE_US <= newest_us


def _values(of: Callable[[Event], Any], events: list[Event]) -> list[Any]:
    return [value for value in map(of, events) if value is not None]


def _count(of: Callable[[Event], Any] = lambda event: event) -> Column:
    return lambda events: len(_values(of, events))


def _sum(of: Callable[[Event], Any]) -> Column:
    return lambda events: sum(values) if (values := _values(of, events)) else None


def _min(of: Callable[[Event], Any]) -> Column:
    return lambda events: min(_values(of, events), default=None)


def _max(of: Callable[[Event], Any]) -> Column:
    return lambda events: max(_values(of, events), default=None)


def _distinct(of: Callable[[Event], Any]) -> Column:
    return lambda events: Distinct(len(set(_values(of, events))))


def _mean_double(of: Callable[[Event], Any]) -> Column:
    def mean(events: list[Event]) -> Near | None:
        values = _values(of, events)
        if not values:
            return None
        return Near(math.fsum(values) / len(values), 1e-9 * math.fsum(map(abs, values)) / len(values))

    return mean


def _mean_whole(of: Callable[[Event], Any]) -> Column:
    return lambda events: sum(values) / len(values) if (values := _values(of, events)) else None


def _mean_decimal(of: Callable[[Event], Any], digits: int) -> Column:
    def mean(events: list[Event]) -> Decimal | None:
        values = _values(of, events)
        exact = sum(values) / Decimal(len(values)) if values else None
        return exact if exact is None else exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)

    return mean


def _paid(order: ShopOrder) -> Decimal | None:
    return None if order.amount is None else order.amount * order.quantity


def _outcome(visit: Visit) -> str:
    if visit.status is None:
        return "unknown"
    return "failed" if visit.status >= 500 else "refused" if visit.status >= 400 else "served"


def _source(visit: Visit) -> str:
    return "direct" if visit.referrer is None else visit.referrer.lower()


def _moment(order: ShopOrder) -> datetime:
    return datetime.fromtimestamp(order.at_us // 1_000_000, UTC).replace(microsecond=order.at_us % 1_000_000)


RULES = (
    ViewRule(
        "traffic",
        "visits",
        {"page": lambda v: v.page},
        {
            "hits": _count(),
            "errors": _count(lambda v: True if v.status is not None and v.status >= 500 else None),
            "bytes": _sum(lambda v: v.bytes),
            "load_ms": _mean_double(lambda v: v.load_ms),
            "slowest": _max(lambda v: v.load_ms),  # added by the edit
        },
        size_us=MINUTE_US,
    ),
    ViewRule(
        "revenue",
        "orders",
        {"category": lambda o: o.category},
        {
            "orders": _count(),
            "priced": _count(lambda o: o.amount),
            "revenue": _sum(_paid),
            "mean_amount": _mean_decimal(lambda o: o.amount, 6),
            "lowest": _min(lambda o: o.amount),
            "highest": _max(lambda o: o.amount),
        },
        size_us=MINUTE_US,
    ),
    ViewRule(
        "pulse",
        "visits",
        {"status": lambda v: v.status},
        {"hits": _count(), "visitors": _distinct(lambda v: v.visitor), "slowest": _max(lambda v: v.load_ms)},
        size_us=5 * MINUTE_US,
        slide_us=MINUTE_US,
    ),
    ViewRule(
        "audience",
        "visits",
        {},
        {
            "hits": _count(),
            "visitors": _distinct(lambda v: v.visitor),
            "at_checkout": _distinct(lambda v: v.visitor if v.page == "/checkout" else None),
        },
        where=lambda v: v.status is not None and v.status < 400,
        size_us=10 * MINUTE_US,
    ),
    ViewRule(
        "sources",
        "visits",
        {"source": _source, "outcome": _outcome},
        {"hits": _count(), "sized": _count(lambda v: v.bytes), "bytes": _sum(lambda v: v.bytes)},
        size_us=5 * MINUTE_US,
    ),
    ViewRule(
        "countries",
        "orders",
        {"country": lambda o: o.country},
        {
            "orders": _count(),
            "gifts": _count(lambda o: o.gift or None),
            "items": _sum(lambda o: o.quantity),
            "mean_items": _mean_whole(lambda o: o.quantity),
            "revenue": _sum(_paid),
            "buyers": _distinct(lambda o: o.visitor),
            "first_order": _min(_moment),
            "last_order": _max(_moment),
        },
        where=lambda o: o.amount is not None and o.amount > 0,
    ),
)
