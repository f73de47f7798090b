"""What the views of each example must say, by plain Python over the example's events."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Cells = tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """All rows of a question, as the values of some columns."""

    view: str
    columns: tuple[str, ...]
    rows: list[Cells]
    question: dict[str, Any] = field(default_factory=dict)
    in_order: bool = False
    tolerance: float = 0.0


def read(path: Path) -> list[Event]:
    """The events of a file of NDJSON or CSV, their times as such."""
    if path.suffix == ".csv":
        with path.open() as file:
            events: list[Event] = list(csv.DictReader(file))
    else:
        events = [json.loads(line) for line in path.read_text().splitlines()]
    return [{**event, "at": datetime.fromisoformat(event["at"])} if "at" in event else event for event in events]


def floor(at: datetime, minutes: int) -> datetime:
    """The begin of the window of a time."""
    return datetime.fromtimestamp(at.timestamp() // (60 * minutes) * 60 * minutes, UTC)


def grouped(events: Iterable[Event], key: Callable[[Event], Cells]) -> dict[Cells, list[Event]]:
    groups: dict[Cells, list[Event]] = defaultdict(list)
    for event in events:
        groups[key(event)].append(event)
    return groups


def word_count(folder: Path) -> list[Answer]:
    text = (folder / "first.txt").read_text() + (folder / "second.txt").read_text()
    counts = Counter(word.lower() for word in re.findall("[A-Za-z]+", text))
    return [Answer("word_count", ("word", "n"), list(counts.items()))]


def unique_visitors(folder: Path) -> list[Answer]:
    visits = read(folder / "visits.ndjson")
    hours = grouped(visits, lambda visit: (visit["page"], floor(visit["at"], 60)))
    pages = grouped(visits, lambda visit: (visit["page"],))
    days = {"start": "2026-03-01", "end": "2026-03-04", "window": "3 days"}
    columns = ("visits", "visitors")

    def cells(groups: dict[Cells, list[Event]]) -> list[Cells]:
        return [(*key, len(each), len({visit["visitor"] for visit in each})) for key, each in groups.items()]

    return [
        Answer("visitors", ("page", "window_start", *columns), cells(hours)),
        Answer("visitors", ("page", *columns), cells(pages), days),
        Answer("visitors", ("page", "about"), [(page, n) for page, _, n in cells(pages)], days, tolerance=0.05),
    ]


def access_log(folder: Path) -> list[Answer]:
    requests = []
    for line in (folder / "access.log").read_text().splitlines():
        parts = re.fullmatch(r'(\S+) - - \[(.+)\] "GET (\S+)\?\S+ HTTP/1.1" (\d+) \d+ (\d+)', line)
        assert parts
        at = datetime.strptime(parts[2], "%d/%b/%Y:%H:%M:%S %z")
        requests.append({"address": parts[1], "at": at, "page": parts[3], "status": int(parts[4]), "ms": int(parts[5])})
    addresses = grouped(requests, lambda request: (request["address"],))
    windows = grouped(requests, lambda request: (floor(request["at"], 10),))
    pages = {page: each for (page,), each in grouped(requests, lambda request: (request["page"],)).items()}
    p95 = {page: sorted(request["ms"] for request in each)[int(0.95 * len(each))] for page, each in pages.items()}
    errors = {window: sum(request["status"] >= 500 for request in each) for window, each in windows.items()}
    slow = sorted((page for page in pages if len(pages[page]) >= 20), key=lambda page: -p95[page])
    return [
        Answer(
            "by_address",
            ("address", "requests", "last_seen"),
            [(*key, len(each), max(request["at"] for request in each)) for key, each in addresses.items()],
        ),
        Answer(
            "error_rate",
            ("window_start", "requests", "error_percent"),
            [(*key, len(each), round(100 * errors[key] / len(each), 2)) for key, each in windows.items()],
            tolerance=0.001,
        ),
        Answer(
            "slowest",
            ("page", "requests", "worst_ms"),
            [(page, len(pages[page]), max(request["ms"] for request in pages[page])) for page in slow],
            in_order=True,
        ),
        Answer("slowest", ("page", "p95_ms"), [(page, p95[page]) for page in slow], tolerance=0.15),
    ]


def trending_words(folder: Path) -> list[Answer]:
    words = [
        {"word": word.lower(), "author": message["author"], "minute": floor(message["at"], 1)}
        for message in read(folder / "messages.ndjson")
        for word in re.split("[^A-Za-z#]+", message["text"])
        if len(word) > 3
    ]
    groups = grouped(words, lambda word: (word["word"], word["minute"]))
    rows = [(*key, len(each), len({word["author"] for word in each})) for key, each in groups.items()]
    first: list[Cells] = []
    for minute in sorted({row[1] for row in rows}):
        of_minute = sorted((row for row in rows if row[1] == minute), key=lambda row: (-row[3], -row[2], row[0]))
        first += of_minute[:3]
    columns = ("word", "window_start", "n", "authors")
    return [Answer("words_per_minute", columns, rows), Answer("trending", columns, first, in_order=True)]


def moving_average(folder: Path) -> list[Answer]:
    prices = sorted(read(folder / "prices.ndjson"), key=lambda price: price["at"])
    windows: dict[Cells, list[Event]] = defaultdict(list)
    for price in prices:
        for back in range(6):
            windows[price["symbol"], floor(price["at"], 10) - timedelta(minutes=10 * back)].append(price)
    values = {key: [price["price"] for price in each] for key, each in windows.items()}
    return [
        Answer(
            "moving_average",
            ("symbol", "window_start", "average", "lowest", "highest", "latest"),
            [(*key, sum(each) / len(each), min(each), max(each), each[-1]) for key, each in values.items()],
            tolerance=1e-6,
        )
    ]


def station_alarms(folder: Path) -> list[Answer]:
    groups = grouped(read(folder / "alarms.ndjson"), lambda alarm: (alarm["station"], floor(alarm["at"], 15)))
    rows = [
        (
            *key,
            len(each),
            sum(alarm["severity"] == "critical" for alarm in each),
            max(each, key=lambda alarm: alarm["at"])["code"],
        )
        for key, each in groups.items()
    ]
    return [Answer("alarms_per_station", ("station", "window_start", "alarms", "critical", "last_code"), rows)]


def sensor_thresholds(folder: Path) -> list[Answer]:
    readings = read(folder / "readings.ndjson")
    limits = {"temperature": 80, "pressure": 6.5}
    groups = grouped(readings, lambda reading: (reading["sensor"], floor(reading["at"], 5)))
    high = {
        key: [reading for reading in each if reading["value"] > limits[reading["kind"]]] for key, each in groups.items()
    }
    return [
        Answer(
            "sensor_state",
            ("sensor", "window_start", "readings", "latest"),
            [(*key, len(each), max(each, key=lambda reading: reading["at"])["value"]) for key, each in groups.items()],
        ),
        Answer(
            "too_high",
            ("sensor", "window_start", "times", "highest", "since"),
            [
                (*key, len(each), max(reading["value"] for reading in each), min(reading["at"] for reading in each))
                for key, each in high.items()
                if len(each) >= 3
            ],
        ),
    ]


def stock(folder: Path) -> list[Answer]:
    shipments, sales = read(folder / "shipments.csv"), read(folder / "sales.ndjson")
    left: Counter[str] = Counter()
    for shipment in shipments:
        left[shipment["item"]] += int(shipment["quantity"])
    for sale in sales:
        left[sale["item"]] -= sale["quantity"]
    sold = Counter(sale["item"] for sale in sales)
    few = sorted((item for item in left if left[item] < 20), key=lambda item: (left[item], item))
    assert few
    return [
        Answer("stock", ("item", "in_stock", "sales"), [(item, left[item], sold[item]) for item in left]),
        Answer(
            "reorders",
            ("item", "in_stock", "order_quantity"),
            [(item, left[item], 100 - left[item]) for item in few],
            in_order=True,
        ),
    ]


def people_and_places(folder: Path) -> list[Answer]:
    moves = read(folder / "before.ndjson") + read(folder / "after.ndjson")
    lives: dict[str, Event] = {}
    for move in moves:
        known = lives.get(move["person"])
        if known is None or move["at"] >= known["at"]:
            lives[move["person"]] = move
    people = Counter(move["place"] for move in lives.values())
    return [
        Answer("lives", ("person", "place"), [(person, move["place"]) for person, move in lives.items()]),
        Answer("headcount", ("place", "people"), list(people.items())),
    ]


def web_shop(folder: Path) -> list[Answer]:
    def plans(name: str) -> dict[str, str]:
        return {customer["id"]: customer["plan"] for customer in read(folder / name)}

    before = plans("customers.csv")
    after = before | plans("upgrades.csv")
    orders = [{**order, "plan": before.get(order["customer"])} for order in read(folder / "orders-before.ndjson")]
    orders += [{**order, "plan": after.get(order["customer"])} for order in read(folder / "orders-after.ndjson")]
    groups = grouped(orders, lambda order: (order["plan"], floor(order["at"], 60)))
    rows = [(*key, len(each), round(sum(order["amount"] for order in each), 2)) for key, each in groups.items()]
    return [Answer("revenue_by_plan", ("plan", "window_start", "orders", "revenue"), rows)]


ANSWERS: dict[str, Callable[[Path], list[Answer]]] = {
    "word-count": word_count,
    "unique-visitors": unique_visitors,
    "access-log": access_log,
    "trending-words": trending_words,
    "moving-average": moving_average,
    "station-alarms": station_alarms,
    "sensor-thresholds": sensor_thresholds,
    "stock": stock,
    "web-shop": web_shop,
    "people-and-places": people_and_places,
}
