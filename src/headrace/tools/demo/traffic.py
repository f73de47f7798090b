"""The traffic of a web shop, partly invalid: same seed, same bytes. Its clock runs faster than real time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import orjson


class Visit(NamedTuple):
    """A page view."""

    visitor: str
    page: str | None
    status: int | None
    bytes: int | None
    load_ms: float | None
    referrer: str | None
    at_us: int


class ShopOrder(NamedTuple):
    """A purchase or a return."""

    order_id: str
    visitor: str
    category: str | None
    amount: Decimal | None
    quantity: int
    country: str | None
    gift: bool | None
    at_us: int


Truth = Visit | ShopOrder | None  # None: the event is invalid and must not be in any view


@dataclass(frozen=True)
class SentBatch:
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


Event = dict[str, Any]


def _cut_off(event: Event) -> bytes:
    return orjson.dumps(event)[:-9]


def _no_visitor(event: Event) -> bytes:
    return orjson.dumps({**event, "visitor": None})


def _no_time(event: Event) -> bytes:
    return orjson.dumps({name: value for name, value in event.items() if name != "at"})


def _word_for_number(event: Event) -> bytes:
    return orjson.dumps({**event, "quantity" if "quantity" in event else "status": "two hundred"})


def _year_1900(event: Event) -> bytes:
    return orjson.dumps({**event, "at": "1900-01-01T00:00:00Z"})


def _year_9000(event: Event) -> bytes:
    return orjson.dumps({**event, "at": "9000-01-01T00:00:00Z"})


def _no_such_day(event: Event) -> bytes:
    return orjson.dumps({**event, "at": "2025-02-30T10:00:00Z"})


def _no_object(event: Event) -> bytes:
    return orjson.dumps(list(event.values()))


def _no_utf8(event: Event) -> bytes:
    return orjson.dumps({**event, "visitor": "@@"}).replace(b"@@", b"\xff\xfe")


def _too_precise(event: Event) -> bytes:
    """An amount of a thousandth, or more bytes than 64 bits can count."""
    if "quantity" in event:
        return orjson.dumps({**event, "amount": "9.999"})
    return orjson.dumps({**event, "bytes": "@@"}).replace(b'"@@"', b"9223372036854775808")


KINDS = {
    "cut off": _cut_off,
    "no visitor": _no_visitor,
    "no time": _no_time,
    "a word for a number": _word_for_number,
    "the year 1900": _year_1900,
    "the year 9000": _year_9000,
    "a day that never was": _no_such_day,
    "not an object": _no_object,
    "not UTF-8": _no_utf8,
    "more than the type holds": _too_precise,
}


def spoil(event: Event, choice: int) -> bytes:
    """The event as invalid bytes, of the kind that the choice selects."""
    return list(KINDS.values())[choice % len(KINDS)](event)


Word = TypeVar("Word")

MISSING = "\0missing"  # the field is missing in the event, which means the same as null

PAGES: dict[str | None, float] = {
    "/": 22,
    "/search": 18,
    "/checkout": 6,
    "/basket": 9,
    "/p/kettle": 12,
    "/p/teapot": 10,
    "/p/mug": 9,
    "/p/地球儀": 3,
    "/p/crème-brûlée-set": 4,
    "/p/🎁": 2,
    "/help": 2,
    '/p/19" rack': 1,
    "/p/back\\slash": 0.5,
    "": 0.3,
    None: 1,
    MISSING: 0.2,
}
STATUSES: dict[int | None, float] = {200: 88, 304: 5, 301: 2, 404: 3, 500: 1, 503: 0.7, None: 0.3}
REFERRERS: dict[str | None, float] = {
    "Search": 20,
    "search": 8,
    "SEARCH": 2,
    "Newsletter": 12,
    "newsletter": 6,
    "Météo": 3,
    "météo": 2,
    "Straße 12": 2,
    "Friend": 9,
    None: 26,
    MISSING: 10,
}
CATEGORIES: dict[str | None, float] = {
    "kitchen": 30,
    "books": 22,
    "garden": 14,
    "toys": 12,
    "Möbel": 8,
    "お茶": 6,
    "gifts 🎁": 5,
    "a, b; 'c'": 1,
    None: 2,
}
COUNTRIES: dict[str | None, float] = {
    "DE": 30,
    "FR": 18,
    "GB": 16,
    "JP": 10,
    "BR": 8,
    "Côte d’Ivoire": 3,
    "中国": 5,
    None: 3,
    MISSING: 1,
}


class Draw(Generic[Word]):
    """Draws words by their weights."""

    def __init__(self, words: dict[Word, float]) -> None:
        self._words: Sequence[Word] = list(words)
        weights = np.array(list(words.values()), dtype=np.float64)
        self._edges: npt.NDArray[np.float64] = np.cumsum(weights) / weights.sum()

    def draw(self, rng: np.random.Generator, count: int) -> list[Word]:
        """Draw values at random."""
        indexes = np.minimum(np.searchsorted(self._edges, rng.random(count), side="right"), len(self._words) - 1)
        return [self._words[index] for index in indexes.tolist()]


STREAMS = ("visits", "orders")
OPENING = datetime(2025, 11, 28, 9, tzinfo=UTC)  # a Friday
SPEED = 60  # seconds of the shop's clock per second of real time
TICK_S = 0.1  # of real time: one batch of each stream
PATIENCE_US = 60_000_000
VISITORS = 30_000
SECOND_US = 1_000_000

EventAndTruth = tuple[dict[str, Any], Truth]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Traffic:
    """The traffic of the shop for a number of seconds at an average rate of events per second."""

    seed: int = 7
    seconds: float = 22.0
    rate: int = 4_000

    @property
    def ticks(self) -> int:
        return max(1, round(self.seconds / TICK_S))

    def sizes(self) -> list[int]:
        """The number of events of each tick: a wave with noise and bursts. The sum is seconds x rate."""
        rng = np.random.default_rng([self.seed, 0])
        at = np.arange(self.ticks)
        load = 1 + 0.45 * np.sin(at * (2 * math.pi / 90)) + rng.normal(0, 0.08, self.ticks)
        for start in rng.integers(0, self.ticks, max(1, self.ticks // 60)):
            load[start : start + 8] += rng.uniform(1.5, 4)
        edges = np.cumsum(load.clip(0.05))
        total = round(self.seconds * self.rate)
        return [int(size) for size in np.diff(np.round(edges / edges[-1] * total), prepend=0)]

    def batches(self, stream: str) -> Iterator[SentBatch]:
        """One batch of a stream for each tick; one event in five is an order."""
        for tick, size in enumerate(self.sizes()):
            yield self._batch(stream, tick, size // 5 if stream == "orders" else size - size // 5)

    def clock_us(self, tick: int) -> int:
        """The shop's time when a tick begins."""
        return round((OPENING.timestamp() + tick * TICK_S * SPEED) * SECOND_US)

    def _batch(self, stream: str, tick: int, size: int) -> SentBatch:
        rng = np.random.default_rng([self.seed, 1 + STREAMS.index(stream), tick])
        clock = self.clock_us(tick)
        times = _event_times(rng, clock, size)
        pairs = _visits(rng, times) if stream == "visits" else _orders(rng, times, tick)
        for index in np.flatnonzero(rng.random(size) < 0.01).tolist():
            # A duplicate: the same bytes, but a separate event.
            pairs[index] = pairs[index - 1]
        lines = [orjson.dumps(event) for event, _ in pairs]
        truths = [truth for _, truth in pairs]
        # Invalid events arrive in groups, as from one faulty client.
        if size and rng.random() < 0.25:
            for index in rng.integers(0, size, 1 + size // 40).tolist():
                lines[index] = spoil(pairs[index][0], int(rng.integers(1 << 16)))
                truths[index] = None
        late = sum(truth is not None and truth.at_us < clock - PATIENCE_US for truth in truths)
        return SentBatch(stream, tick, b"\n".join(lines), truths, late)


def _event_times(rng: np.random.Generator, clock_us: int, size: int) -> Array:
    """Within the tick, but seconds out of order; some late by minutes, a few by hours."""
    lag_s = rng.exponential(5, size)
    chance = rng.random(size)
    lag_s = np.where(chance < 0.03, rng.uniform(120, 3_600, size), lag_s)
    lag_s = np.where(chance < 0.002, rng.uniform(3_600, 9 * 3_600, size), lag_s)
    within_s = rng.uniform(0, TICK_S * SPEED, size)
    us = clock_us + np.round((within_s - lag_s) * 1_000).astype(np.int64) * 1_000
    return np.where(rng.random(size) < 0.01, us - us % (60 * SECOND_US), us)  # some exactly at the start of a window


def _visits(rng: np.random.Generator, times: Array) -> list[EventAndTruth]:
    size = len(times)
    # Some are large, so that sums, and even single values, exceed 32 bits.
    weights = np.where(rng.random(size) < 0.002, rng.integers(1 << 31, 1 << 40, size), rng.lognormal(9, 1.4, size))
    columns = zip(
        _visitors(rng, size),
        Draw(PAGES).draw(rng, size),
        Draw(STATUSES).draw(rng, size),
        _some_null(rng, weights.astype(np.int64).tolist(), 0.05),
        _some_null(rng, np.round(rng.gamma(2.2, 90, size), 3).tolist(), 0.02),
        Draw(REFERRERS).draw(rng, size),
        times.tolist(),
        _forms(rng, size),
        strict=True,
    )
    pairs: list[EventAndTruth] = []
    for visitor, page, status, weight, load_ms, referrer, at_us, form in columns:
        event = {"visitor": visitor, "status": status, "bytes": weight, "load_ms": load_ms, "at": form(at_us)}
        truth = Visit(
            visitor, _put(event, "page", page), status, weight, load_ms, _put(event, "referrer", referrer), at_us
        )
        pairs.append((event, truth))
    return pairs


def _orders(rng: np.random.Generator, times: Array, tick: int) -> list[EventAndTruth]:
    size = len(times)
    cents = rng.lognormal(7.6, 1.1, size).clip(1, 9_999_999_999).astype(np.int64)
    cents = np.where(rng.random(size) < 0.03, -cents, cents)  # returns
    columns = zip(
        _visitors(rng, size),
        Draw(CATEGORIES).draw(rng, size),
        _some_null(rng, cents.tolist(), 0.01),
        rng.geometric(0.6, size).tolist(),
        Draw(COUNTRIES).draw(rng, size),
        _some_null(rng, (rng.random(size) < 0.15).tolist(), 0.1),
        times.tolist(),
        _forms(rng, size),
        strict=True,
    )
    pairs: list[EventAndTruth] = []
    for number, (visitor, category, paid, quantity, country, gift, at_us, form) in enumerate(columns):
        amount = None if paid is None else Decimal(paid).scaleb(-2)
        name = f"o-{tick}-{number}"
        # An amount is a JSON number or a string; both are exact.
        json_amount = None if paid is None else str(amount) if number % 7 == 0 else paid / 100
        event = {
            "order_id": name,
            "visitor": visitor,
            "category": category,
            "amount": json_amount,
            "quantity": quantity,
        }
        event |= {"gift": gift, "at": form(at_us)}
        truth = ShopOrder(name, visitor, category, amount, quantity, _put(event, "country", country), gift, at_us)
        pairs.append((event, truth))
    return pairs


def _put(event: dict[str, Any], name: str, word: str | None) -> str | None:
    """Set the field, unless it should be missing; returns the true value."""
    if word == MISSING:
        return None
    event[name] = word
    return word


def _visitors(rng: np.random.Generator, size: int) -> list[str]:
    """Visitors: some very often, most once."""
    numbers = (VISITORS * rng.beta(0.6, 2.0, size)).astype(np.int64)
    return [f"v{number:05d}" for number in numbers.tolist()]


def _some_null(rng: np.random.Generator, values: list[Any], share: float) -> list[Any]:
    return [
        None if null else value for value, null in zip(values, (rng.random(len(values)) < share).tolist(), strict=True)
    ]


def _utc(us: int) -> str:
    return (
        datetime.fromtimestamp(us // SECOND_US, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{us % SECOND_US // 1_000:03d}Z"
    )


def _offset(us: int) -> str:
    """The time in another time zone."""
    moment = datetime.fromtimestamp(us // SECOND_US, timezone(timedelta(hours=5, minutes=30)))
    return moment.replace(microsecond=us % SECOND_US).isoformat()


def _forms(rng: np.random.Generator, size: int) -> list[Callable[[int], str]]:
    """The format of each time."""
    return [_offset if other else _utc for other in (rng.random(size) < 0.02).tolist()]
