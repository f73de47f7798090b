"""The true values of events, from which exact answers are computed."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple


class Visit(NamedTuple):
    """A page view."""

    visitor: str
    page: str | None
    status: int | None
    bytes: int | None
    load_ms: float | None
    referrer: str | None
    at_us: int


class Order(NamedTuple):
    """A purchase or a return."""

    order_id: str
    visitor: str
    category: str | None
    amount: Decimal | None
    quantity: int
    country: str | None
    gift: bool | None
    at_us: int


Truth = Visit | Order | None  # None: the event is invalid and must not be in any view


@dataclass(frozen=True)
class Batch:
    """Events of one stream that are sent together, with their true values."""

    stream: str
    number: int
    body: bytes  # NDJSON
    truths: list[Truth]
    late: int  # valid events that are later than the patience, by the shop's clock

    @property
    def broken(self) -> list[int]:
        """The indexes of events that must be refused."""
        return [index for index, truth in enumerate(self.truths) if truth is None]

    def __len__(self) -> int:
        return len(self.truths)
