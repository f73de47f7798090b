"""What the generator knows of an event: its true values, from which exact answers are computed."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple


class Visit(NamedTuple):
    """A page that was looked at."""

    visitor: str
    page: str | None
    status: int | None
    bytes: int | None
    load_ms: float | None
    referrer: str | None
    at_us: int


class Order(NamedTuple):
    """Something that was bought, or given back."""

    order_id: str
    visitor: str
    category: str | None
    amount: Decimal | None
    quantity: int
    country: str | None
    gift: bool | None
    at_us: int


Truth = Visit | Order | None  # None: the event is broken, and must be in no view


@dataclass(frozen=True)
class Batch:
    """Events of one stream that are sent together, and what is true of each."""

    stream: str
    number: int
    body: bytes  # NDJSON
    truths: list[Truth]
    late: int  # good events whose time lies more than the patience behind the shop's clock

    @property
    def broken(self) -> list[int]:
        """The indexes of events that must be refused."""
        return [index for index, truth in enumerate(self.truths) if truth is None]

    def __len__(self) -> int:
        return len(self.truths)
