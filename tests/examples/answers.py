"""What the views of each example must say, by plain Python over the example's events."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.examples.answer import Answer, Cells, Event, floor, grouped, read


def word_count(folder: Path) -> list[Answer]:
    text = (folder / "first.txt").read_text() + (folder / "second.txt").read_text()
    counts = Counter(word.lower() for word in re.findall("[A-Za-z]+", text))
    return [Answer("word_count", ("word", "n"), list(counts.items()))]


def unique_visitors(folder: Path) -> list[Answer]:
    visits = []
    for visit in read(folder / "visits.ndjson"):
        parts = re.fullmatch("https://([^/]+)(/.*)", visit["url"])
        assert parts
        visits.append({**visit, "domain": parts[1], "page": parts[2]})
    hours = grouped(visits, lambda visit: (visit["domain"], visit["page"], floor(visit["at"], 60)))
    months = grouped(visits, lambda visit: (visit["domain"], datetime(2025, visit["at"].month, 1, tzinfo=UTC)))
    domains = grouped(visits, lambda visit: (visit["domain"],))
    summer = {"by": ["domain"], "start": "2025-06-01", "end": "2025-09-01"}
    columns = ("visits", "visitors")

    def cells(groups: dict[Cells, list[Event]]) -> list[Cells]:
        return [(*key, len(each), len({visit["visitor"] for visit in each})) for key, each in groups.items()]

    return [
        Answer("visitors", ("domain", "page", "window_start", *columns), cells(hours)),
        Answer("visitors", ("domain", "window_start", *columns), cells(months), {**summer, "window": "1 month"}),
        Answer("visitors", ("domain", *columns), cells(domains), {**summer, "window": "all"}),
        Answer(
            "visitors",
            ("domain", "about"),
            [(domain, float(n)) for domain, _, n in cells(domains)],
            {**summer, "window": "all"},
            tolerance=0.05,
        ),
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
        Answer("slowest", ("page", "p95_ms"), [(page, float(p95[page])) for page in slow], tolerance=0.15),
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
    limits = {station["id"]: int(station["critical_limit"]) for station in read(folder / "stations.csv")}
    groups = grouped(read(folder / "alarms.ndjson"), lambda alarm: (alarm["station"], floor(alarm["at"], 15)))
    rows = [
        (
            *key,
            len(each),
            sum(alarm["severity"] == "critical" for alarm in each),
            limits.get(key[0], 5),
            max(each, key=lambda alarm: alarm["at"])["code"],
        )
        for key, each in groups.items()
    ]
    columns = ("station", "window_start", "alarms", "critical", "critical_limit", "last_code")
    return [Answer("alarms_per_station", columns, rows)]


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
    weeks = grouped(sales, lambda sale: (sale["item"], floor(sale["at"], 1440) - timedelta(sale["at"].weekday())))
    demand = {key: sum(sale["quantity"] for sale in each) for key, each in weeks.items()}
    return [
        Answer("stock", ("item", "in_stock", "sales"), [(item, left[item], sold[item]) for item in left]),
        Answer(
            "reorders",
            ("item", "in_stock", "order_quantity"),
            [(item, left[item], 100 - left[item]) for item in few],
            in_order=True,
        ),
        Answer(
            "demand",
            ("item", "window_start", "sold", "price_percent"),
            [(*key, sold, 5 if sold >= 150 else -10 if sold < 50 else 0) for key, sold in demand.items()],
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


def taxi_shifts(folder: Path) -> list[Answer]:
    rides = [
        {**ride, "started": datetime.fromisoformat(ride["started"]), "ended": datetime.fromisoformat(ride["ended"])}
        for ride in read(folder / "rides.ndjson")
    ]
    windows: dict[Cells, list[Event]] = defaultdict(list)
    for ride in rides:
        for back in range(24):
            windows[ride["driver"], floor(ride["ended"], 60) - timedelta(hours=back)].append(ride)
    drivers = grouped(rides, lambda ride: (ride["driver"],))

    def minutes(each: list[Event]) -> int:
        """From the first begin to the last end of the rides between two breaks; the most of them."""
        most = timedelta()
        begin = end = None
        for ride in sorted(each, key=lambda ride: ride["started"]):
            if begin is None or ride["started"] - end >= timedelta(hours=8):
                begin = ride["started"]
            end = ride["ended"]
            most = max(most, end - begin)
        return most // timedelta(minutes=1)

    columns = ("rides", "shift_minutes")
    return [
        Answer(
            "shifts",
            ("driver", "window_start", *columns),
            [(*key, len(each), minutes(each)) for key, each in windows.items()],
        ),
        Answer(
            "shifts",
            ("driver", *columns),
            [(*key, len(each), minutes(each)) for key, each in drivers.items()],
            {"start": "2026-03-01", "end": "2026-03-04", "window": "all"},
        ),
    ]


def then_within(folder: Path) -> list[Answer]:
    alarms = read(folder / "alarms.ndjson")

    def cells(key: Callable[[Event], Cells]) -> list[Cells]:
        rows = []
        for values, each in grouped(alarms, key).items():
            power, lost = ([alarm["at"] for alarm in each if alarm["alarm"] == kind] for kind in ("power", "link_lost"))
            pairs = sum(any(timedelta() < at - begin <= timedelta(minutes=10) for at in lost) for begin in power)
            rows += [(*values, len(power), pairs)] if power else []
        return rows

    columns = ("power", "then_link_lost")
    return [
        Answer(
            "power_then_link",
            ("device", "window_start", *columns),
            cells(lambda alarm: (alarm["device"], floor(alarm["at"], 60))),
        ),
        Answer("power_then_link", ("device", *columns), cells(lambda alarm: (alarm["device"],)), {"window": "1 day"}),
    ]


def search_clicks(folder: Path) -> list[Answer]:
    searches = {search["id"]: search for search in read(folder / "searches.ndjson")}
    clicks = grouped(read(folder / "clicks.ndjson"), lambda click: (click["search"],))
    rows, seconds = [], defaultdict(list)
    for name in {*searches, *(name for (name,) in clicks)}:
        search, own = searches.get(name, {}), sorted(clicks.get((name,), []), key=lambda click: click["at"])
        first = own[0] if own else {}
        rows.append((name, search.get("text"), len(own), first.get("result"), search.get("at"), first.get("at")))
        if search:
            seconds[search["text"]].append((first["at"] - search["at"]).total_seconds() if own else None)
    rates = []
    for text, each in sorted(seconds.items(), key=lambda item: (-len(item[1]), item[0])):
        clicked = [one for one in each if one is not None]
        rates.append(
            (text, len(each), 100 * len(clicked) / len(each), sum(clicked) / len(clicked) if clicked else None)
        )
    return [
        Answer("searched", ("search", "text", "clicks", "first_result", "searched_at", "clicked_at"), rows),
        Answer("click_rates", ("text", "searches", "clicked_percent", "seconds_to_click"), rates, tolerance=0.01),
    ]


def failure_risk(folder: Path) -> list[Answer]:
    model = (("temperature", 61.5, 9.2, 1.35), ("vibration", 2.9, 1.1, 2.1), ("rpm", 1480, 160, 0.4))

    def risk(reading: Event) -> float | None:
        if None in reading.values():
            return None
        score = sum(weight * (reading[name] - mean) / deviation for name, mean, deviation, weight in model) - 3.2
        return round(1 / (1 + math.exp(-score)), 6)

    groups = grouped(read(folder / "readings.ndjson"), lambda each: (each["machine"], floor(each["at"], 60)))
    rows = []
    for key, readings in groups.items():
        risks = [each for each in map(risk, readings) if each is not None]
        mean = sum(risks) / len(risks) if risks else None
        rows.append((*key, len(risks), mean, max(risks, default=None), sum(each > 0.5 for each in risks)))
    return [
        Answer(
            "risk_per_machine",
            ("machine", "window_start", "readings", "risk", "highest", "risky"),
            rows,
            tolerance=1e-9,
        )
    ]


def road_speed(folder: Path) -> list[Answer]:
    positions = read(folder / "positions.ndjson")

    def cells(key: Callable[[Event], Cells]) -> list[Cells]:
        rows = []
        for values, each in grouped(positions, key).items():
            speeds = [position["kmh"] for position in each]
            vehicles = len({position["vehicle"] for position in each})
            rows.append((*values, vehicles, sum(kmh < 20 for kmh in speeds), sum(speeds) / len(speeds)))
        return rows

    columns = ("vehicles", "slow", "mean_kmh")
    return [
        Answer(
            "speeds",
            ("road", "segment", "window_start", *columns),
            cells(lambda each: (each["road"], int(each["km"]), floor(each["at"], 5))),
            tolerance=0.01,
        ),
        Answer(
            "speeds",
            ("road", *columns),
            cells(lambda each: (each["road"],)),
            {"by": ["road"], "window": "1 hour"},
            tolerance=0.01,
        ),
    ]


def money_mules(folder: Path) -> list[Answer]:
    senders: dict[Cells, set[str]] = defaultdict(set)
    received: Counter[Cells] = Counter()
    sent: Counter[Cells] = Counter()
    for transfer in read(folder / "transfers.csv"):
        source, target, value = int(transfer["sourceNodeId"]), int(transfer["targetNodeId"]), Decimal(transfer["value"])
        for back in range(10):
            day = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(int(transfer["time"]) - back)
            senders[target, day].add(transfer["sourceNodeId"])
            received[target, day] += value
            sent[source, day] += value
    rows = []
    for key in {*received, *sent}:
        suspicious = len(senders[key]) >= 10 and sent[key] >= Decimal("0.8") * received[key]
        rows.append((*key, len(senders[key]), received[key], sent[key], suspicious))
    found = {row[0] for row in rows if row[-1]}
    frauds = {int(account["nodeid"]): account["isFraud"] == "1" for account in read(folder / "accounts.csv")}
    verdicts = [
        (fraud, list(frauds.values()).count(fraud), sum(frauds[account] == fraud for account in found))
        for fraud in (True, False)
    ]
    return [
        Answer("flows", ("account", "window_start", "senders", "received", "sent", "suspicious"), rows),
        Answer("verdicts", ("fraud", "accounts", "found"), verdicts, in_order=True),
    ]


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
    "taxi-shifts": taxi_shifts,
    "then-within": then_within,
    "search-clicks": search_clicks,
    "failure-risk": failure_risk,
    "road-speed": road_speed,
    "money-mules": money_mules,
}

# Of each alert, the values of the key for which it must fire.
ALERTS: dict[str, tuple[str, set[Any]]] = {
    "taxi-shifts": ("driver", {"D7", "D13"}),
    "station-alarms": ("station", {"BS-2", "BS-7"}),
    "money-mules": ("account", set(range(10, 18))),
}
