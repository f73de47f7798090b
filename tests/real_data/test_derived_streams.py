"""Words of a text, items of nested orders, and the latest of changes, in both lanes: the known answers."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def send(headrace: Any, stream: str, *files: Path) -> None:
    reply = json.loads(headrace("send", stream, *map(str, files), "--wait", "--json"))
    assert reply["stalled"] == []


def check_in_both_lanes(headrace: Any, view: str, check: Callable[[], None]) -> None:
    """Check what the workers computed, and what Spark computes from the log; a refresh compares them."""
    (status,) = [each for each in json.loads(headrace("views", "--json")) if each["name"] == view]
    assert status["lane"] == "fused", status
    check()
    assert "drift 0" in headrace("refresh", view)
    check()


def test_word_count(data, headrace, reader):
    file = data / "text" / "tinyshakespeare.txt"
    send(headrace, "verses", file)
    expected = Counter(re.findall(r"[a-z']+", file.read_text().lower()))

    def check() -> None:
        counts = {row["word"]: row["n"] for row in reader.all_rows("word_count")}
        assert (counts["the"], counts["and"], len(counts), sum(counts.values())) == (6283, 5690, 12_631, 204_062)
        assert counts == expected

    check_in_both_lanes(headrace, "word_count", check)


def test_items_of_orders(data, headrace, reader):
    file = data / "sales" / "opensearch_ecommerce_orders.json.gz"
    send(headrace, "orders", file)
    (total,) = reader.all_rows("revenue")
    assert (total["orders"], float(total["revenue"])) == (4675, 350_859.04)
    orders = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    items = [(order["order_date"][:10], item) for order in orders for item in order["products"]]
    by_sku: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, item in items:
        by_sku[item["sku"]].append(item)

    def check() -> None:
        rows = {row["sku"]: row for row in reader.all_rows("by_item")}
        assert sum(row["items"] for row in rows.values()) == len(items) == 10_087
        assert rows.keys() == by_sku.keys()
        for sku, each in by_sku.items():
            assert (rows[sku]["items"], rows[sku]["quantity"]) == (len(each), sum(item["quantity"] for item in each))
            revenue = sum(item["taxful_price"] * item["quantity"] for item in each)
            assert float(rows[sku]["revenue"]) == pytest.approx(revenue)

    check_in_both_lanes(headrace, "by_item", check)
    days = Counter((day, item["category"]) for day, item in items)
    assert {(row["window_start"][:10], row["category"]): row["items"] for row in reader.all_rows("by_category")} == days


def test_latest_ticks(data, headrace, reader):
    files = [data / "ticks" / f"hudi_stock_ticks_batch_{number}.jsonl" for number in (1, 2)]
    for file in files:
        send(headrace, "quotes", file)
    latest: dict[str, dict[str, Any]] = {}
    for line in "".join(file.read_text() for file in files).splitlines():
        tick = json.loads(line)
        known = latest.get(tick["key"])
        if known is None or tick["ts"] >= known["ts"]:
            latest[tick["key"]] = tick
    rows = {row["key"]: row for row in reader.all_rows("latest_ticks")}
    assert len(rows) == 197
    for key, tick in latest.items():
        values = (rows[key]["volume"], rows[key]["open"], rows[key]["close"])
        assert values == (tick["volume"], tick["open"], tick["close"]), key
    assert rows["GOOG_2018-08-31 10"]["volume"] == 9021
    keys = Counter(tick["symbol"] for tick in latest.values())
    assert {row["symbol"]: row["keys"] for row in reader.all_rows("keys_of_symbol")} == keys
    for row in reader.all_rows("keys_of_symbol"):
        assert row["highest"] == max(tick["close"] for tick in latest.values() if tick["symbol"] == row["symbol"])
