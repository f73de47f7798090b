"""Nexmark's events of an auction site, by the rules of its generator, computed by columns.

Of 50 events, 1 is a new person, 3 are new auctions and 46 are bids. Half of the bids are for the current hot auction
(the last one whose number is a multiple of 100), the others for one of the 100 latest. Three quarters of the bids come
from the current hot person, and as many auctions have a hot seller. A price is 10^(6 x) x 100 cents, x uniform.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

PEOPLE, AUCTIONS, TOTAL = 1, 3, 50  # of 50 events; the rest are bids
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT = 100  # a hot auction, bidder or seller has a number that is a multiple of it
HOT_AUCTION_RATIO, HOT_BIDDER_RATIO, HOT_SELLER_RATIO = 2, 4, 4  # all but one of so many draws are hot
IN_FLIGHT_AUCTIONS, ACTIVE_PEOPLE = 100, 1000
AUCTION_LEAD, PERSON_LEAD = 10, 10  # ids that do not exist yet
HOT_CHANNELS = np.array(["Google", "Facebook", "Baidu", "Apple"])
CHANNELS = 10_000
STATES = np.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
CITIES = np.array(["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent",
                   "Cheyenne"])  # fmt: skip
FIRST_NAMES = np.array(["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"])
LAST_NAMES = np.array(["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"])
LETTERS = np.array([*"abcdefghijklmnopqrstuvwxyz "])
BASE_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
EVENTS_PER_S = 10_000
BATCH = 50_000

Ints = NDArray[np.int64]
Texts = NDArray[np.str_]


@dataclass(frozen=True)
class Batch:
    """Some consecutive events as columns, by kind."""

    persons: dict[str, Ints | Texts]
    auctions: dict[str, Ints | Texts]
    bids: dict[str, Ints | Texts]


def batches(events: int, seed: int = 1) -> Iterator[Batch]:
    """The first events, in order."""
    rng = np.random.default_rng(seed)
    for start in range(0, events, BATCH):
        numbers = np.arange(start, min(start + BATCH, events), dtype=np.int64)
        offset = numbers % TOTAL
        people, bids = numbers[offset < PEOPLE], numbers[offset >= PEOPLE + AUCTIONS]
        auctions = numbers[(offset >= PEOPLE) & (offset < PEOPLE + AUCTIONS)]
        yield Batch(_persons(people, rng), _auctions(auctions, rng), _bids(bids, rng))


def write_files(folder: Path, events: int, seed: int = 1) -> dict[str, tuple[Path, int]]:
    """A file of JSON lines for each kind, with the number of its events."""
    counts = dict.fromkeys(("persons", "auctions", "bids"), 0)
    paths = {kind: folder / f"{kind}.ndjson" for kind in counts}
    with (
        paths["persons"].open("wb") as persons,
        paths["auctions"].open("wb") as auctions,
        paths["bids"].open("wb") as bids,
    ):
        for batch in batches(events, seed):
            for kind, out in (("persons", persons), ("auctions", auctions), ("bids", bids)):
                columns: dict[str, Ints | Texts] = getattr(batch, kind)
                rows = zip(*(column.tolist() for column in columns.values()), strict=True)
                content = [orjson.dumps(dict(zip(columns, row, strict=True))) for row in rows]
                out.write(b"\n".join(content) + b"\n" if content else b"")
                counts[kind] += len(content)
    return {kind: (paths[kind], counts[kind]) for kind in counts}


def last_person(numbers: Ints) -> Ints:
    """The last person, counted from 0, who exists at an event."""
    epoch, offset = numbers // TOTAL, numbers % TOTAL
    return epoch * PEOPLE + np.minimum(offset, PEOPLE - 1)


def last_auction(numbers: Ints) -> Ints:
    """The last auction, counted from 0, that exists at an event; -1 before the first one."""
    epoch, offset = numbers // TOTAL, numbers % TOTAL
    of_epoch = np.where(offset < PEOPLE, -1, np.minimum(offset - PEOPLE, AUCTIONS - 1))
    return epoch * AUCTIONS + of_epoch


def _persons(numbers: Ints, rng: np.random.Generator) -> dict[str, Ints | Texts]:
    first, last = rng.choice(FIRST_NAMES, numbers.size), rng.choice(LAST_NAMES, numbers.size)
    cards = rng.integers(0, 10_000, (4, numbers.size))
    return {
        "id": FIRST_ID + last_person(numbers),
        "name": _join(first, " ", last),
        "email": _join(first, "@", last, ".com"),
        "credit_card": _join(*(np.char.zfill(part.astype(str), 4) for part in cards)),
        "city": rng.choice(CITIES, numbers.size),
        "state": rng.choice(STATES, numbers.size),
        "at": _times(numbers),
    }


def _auctions(numbers: Ints, rng: np.random.Generator) -> dict[str, Ints | Texts]:
    price = _prices(numbers.size, rng)
    people = last_person(numbers)
    hot = rng.integers(0, HOT_SELLER_RATIO, numbers.size) > 0
    # An auction lasts as long as 100 auctions take to arrive, by chance up to twice that.
    mean_ms = IN_FLIGHT_AUCTIONS * TOTAL // AUCTIONS * 1000 // EVENTS_PER_S
    length_ms = 1 + rng.integers(0, max(1, 2 * mean_ms), numbers.size)
    return {
        "id": FIRST_ID + last_auction(numbers),
        "item": _texts(20, numbers.size, rng),
        "description": _texts(100, numbers.size, rng),
        "initial_bid": price,
        "reserve": price + _prices(numbers.size, rng),
        "at": _times(numbers),
        "expires": _iso(_milliseconds(numbers) + length_ms),
        "seller": FIRST_ID + np.where(hot, people // HOT * HOT, _active_person(people, rng)),
        "category": FIRST_CATEGORY + rng.integers(0, CATEGORIES, numbers.size),
    }


def _bids(numbers: Ints, rng: np.random.Generator) -> dict[str, Ints | Texts]:
    auctions, people = last_auction(numbers), last_person(numbers)
    oldest = np.maximum(auctions - IN_FLIGHT_AUCTIONS, 0)
    any_auction = oldest + _below(auctions - oldest + 1 + AUCTION_LEAD, rng)
    hot_auction = rng.integers(0, HOT_AUCTION_RATIO, numbers.size) > 0
    hot_bidder = rng.integers(0, HOT_BIDDER_RATIO, numbers.size) > 0
    hot_channel = rng.integers(0, 2, numbers.size) > 0
    channel_number = rng.integers(0, CHANNELS, numbers.size).astype(str)
    channel = np.where(hot_channel, rng.choice(HOT_CHANNELS, numbers.size), _join("channel-", channel_number))
    paths = [_texts(5, numbers.size, rng, LETTERS[:-1]) for _ in range(3)]
    url = _join("https://www.nexmark.com/", paths[0], "/", paths[1], "/", paths[2], "/item.htm?query=1")
    with_channel = _join(url, "&channel_id=", channel_number)
    return {
        "auction": FIRST_ID + np.where(hot_auction, auctions // HOT * HOT, any_auction),
        "bidder": FIRST_ID + np.where(hot_bidder, people // HOT * HOT + 1, _active_person(people, rng)),
        "price": _prices(numbers.size, rng),
        "channel": channel,
        "url": np.where(hot_channel, url, with_channel),
        "at": _times(numbers),
        "extra": _texts(20, numbers.size, rng),
    }


def _active_person(last: Ints, rng: np.random.Generator) -> Ints:
    """One of the 1,000 latest people, or of the next ten."""
    count = last + 1
    active = np.minimum(count, ACTIVE_PEOPLE)
    return count - active + _below(active + PERSON_LEAD, rng)


def _below(limits: Ints, rng: np.random.Generator) -> Ints:
    """A number below each limit."""
    return (rng.random(limits.size) * limits).astype(np.int64)


def _prices(count: int, rng: np.random.Generator) -> Ints:
    return np.round(10 ** (rng.random(count) * 6) * 100).astype(np.int64)


def _milliseconds(numbers: Ints) -> Ints:
    return BASE_MS + numbers * 1000 // EVENTS_PER_S


def _times(numbers: Ints) -> Texts:
    return _iso(_milliseconds(numbers))


def _iso(milliseconds: Ints) -> Texts:
    return _join(np.datetime_as_string(milliseconds.astype("datetime64[ms]"), unit="ms"), "Z")


def _texts(length: int, count: int, rng: np.random.Generator, letters: Texts = LETTERS) -> Texts:
    """Texts of one length; letters are drawn for all of them at once."""
    characters = rng.choice(letters, count * length).astype("<U1")
    return np.ascontiguousarray(characters).view(f"<U{length}") if count else np.array([], f"<U{length}")


def _join(*parts: Texts | str) -> Texts:
    """Texts put together row by row."""
    result: Texts = np.asarray(parts[0])
    for part in parts[1:]:
        result = np.char.add(result, part)
    return result
