"""The traffic of a web shop, made from a seed: same seed, same bytes. Its clock runs faster than ours.

Bursts, events out of order, late ones, twins, nulls and broken ones; with each event what is true of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from headrace.demo.broken import spoil
from headrace.demo.events import Batch, Order, Truth, Visit
from headrace.demo.vocabulary import CATEGORIES, COUNTRIES, MISSING, PAGES, REFERRERS, STATUSES, Draw

STREAMS = ("visits", "orders")
OPENING = datetime(2025, 11, 28, 9, tzinfo=UTC)  # a Friday
SPEED = 60  # seconds of the shop's clock to one of ours
TICK_S = 0.1  # of our time: one batch of each stream
PATIENCE_US = 60_000_000
VISITORS = 30_000
SECOND_US = 1_000_000

Made = tuple[dict[str, Any], Truth]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Traffic:
    """What happens in the shop for some seconds, at some events a second on average."""

    seed: int = 7
    seconds: float = 22.0
    rate: int = 4_000

    @property
    def ticks(self) -> int:
        return max(1, round(self.seconds / TICK_S))

    def sizes(self) -> list[int]:
        """How many events each tick has: a wave, some noise and sudden crowds. They add up to seconds x rate."""
        rng = np.random.default_rng([self.seed, 0])
        at = np.arange(self.ticks)
        load = 1 + 0.45 * np.sin(at * (2 * math.pi / 90)) + rng.normal(0, 0.08, self.ticks)
        for start in rng.integers(0, self.ticks, max(1, self.ticks // 60)):
            load[start : start + 8] += rng.uniform(1.5, 4)
        edges = np.cumsum(load.clip(0.05))
        total = round(self.seconds * self.rate)
        return [int(size) for size in np.diff(np.round(edges / edges[-1] * total), prepend=0)]

    def batches(self, stream: str) -> Iterator[Batch]:
        """One batch of a stream for each tick; one event in five is an order."""
        for tick, size in enumerate(self.sizes()):
            yield self._batch(stream, tick, size // 5 if stream == "orders" else size - size // 5)

    def clock_us(self, tick: int) -> int:
        """The shop's time when a tick begins."""
        return round((OPENING.timestamp() + tick * TICK_S * SPEED) * SECOND_US)

    def _batch(self, stream: str, tick: int, size: int) -> Batch:
        rng = np.random.default_rng([self.seed, 1 + STREAMS.index(stream), tick])
        clock = self.clock_us(tick)
        times = _event_times(rng, clock, size)
        made = _visits(rng, times) if stream == "visits" else _orders(rng, times, tick)
        for index in np.flatnonzero(rng.random(size) < 0.01).tolist():
            # A twin: every byte the same, and yet an event of its own.
            made[index] = made[index - 1]
        lines = [orjson.dumps(event) for event, _ in made]
        truths = [truth for _, truth in made]
        # Broken events come together, from one faulty client at a time.
        if size and rng.random() < 0.25:
            for index in rng.integers(0, size, 1 + size // 40).tolist():
                lines[index] = spoil(made[index][0], int(rng.integers(1 << 16)))
                truths[index] = None
        late = sum(truth is not None and truth.at_us < clock - PATIENCE_US for truth in truths)
        return Batch(stream, tick, b"\n".join(lines), truths, late)


def _event_times(rng: np.random.Generator, clock_us: int, size: int) -> Array:
    """Within the tick, but seconds out of order; some late by minutes, a few by hours."""
    lag_s = rng.exponential(5, size)
    chance = rng.random(size)
    lag_s = np.where(chance < 0.03, rng.uniform(120, 3_600, size), lag_s)
    lag_s = np.where(chance < 0.002, rng.uniform(3_600, 9 * 3_600, size), lag_s)
    within_s = rng.uniform(0, TICK_S * SPEED, size)
    us = clock_us + np.round((within_s - lag_s) * 1_000).astype(np.int64) * 1_000
    return np.where(rng.random(size) < 0.01, us - us % (60 * SECOND_US), us)  # some on the edge of a window


def _visits(rng: np.random.Generator, times: Array) -> list[Made]:
    size = len(times)
    # Millions of bytes now and then: more than 32 bits once they are added up, or even alone.
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
    made: list[Made] = []
    for visitor, page, status, weight, load_ms, referrer, at_us, form in columns:
        event = {"visitor": visitor, "status": status, "bytes": weight, "load_ms": load_ms, "at": form(at_us)}
        truth = Visit(
            visitor, _put(event, "page", page), status, weight, load_ms, _put(event, "referrer", referrer), at_us
        )
        made.append((event, truth))
    return made


def _orders(rng: np.random.Generator, times: Array, tick: int) -> list[Made]:
    size = len(times)
    cents = rng.lognormal(7.6, 1.1, size).clip(1, 9_999_999_999).astype(np.int64)
    cents = np.where(rng.random(size) < 0.03, -cents, cents)  # given back
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
    made: list[Made] = []
    for number, (visitor, category, paid, quantity, country, gift, at_us, form) in enumerate(columns):
        amount = None if paid is None else Decimal(paid).scaleb(-2)
        name = f"o-{tick}-{number}"
        # An amount is a JSON number or a text; both are exact.
        written = None if paid is None else str(amount) if number % 7 == 0 else paid / 100
        event = {"order_id": name, "visitor": visitor, "category": category, "amount": written, "quantity": quantity}
        event |= {"gift": gift, "at": form(at_us)}
        truth = Order(name, visitor, category, amount, quantity, _put(event, "country", country), gift, at_us)
        made.append((event, truth))
    return made


def _put(event: dict[str, Any], name: str, word: str | None) -> str | None:
    """Put the word into the event, unless the field is to be left out; the value that counts."""
    if word == MISSING:
        return None
    event[name] = word
    return word


def _visitors(rng: np.random.Generator, size: int) -> list[str]:
    """Some come all the time, most once."""
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
    """The same moment on a clock in another zone."""
    moment = datetime.fromtimestamp(us // SECOND_US, timezone(timedelta(hours=5, minutes=30)))
    return moment.replace(microsecond=us % SECOND_US).isoformat()


def _forms(rng: np.random.Generator, size: int) -> list[Callable[[int], str]]:
    """How each time is written."""
    return [_offset if other else _utc for other in (rng.random(size) < 0.02).tolist()]
