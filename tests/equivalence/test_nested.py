"""Nested values from the journal through Parquet to a view's numbers, on real Spark."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

from headrace.maintain.partials_job import analyse
from tests.equivalence.bench import Bench

STREAM = """CREATE STREAM orders (
  id BIGINT NOT NULL,
  address STRUCT<city: STRING, geo: STRUCT<lat: DOUBLE, lon: DOUBLE>>,
  items ARRAY<STRUCT<price: DECIMAL(8,2), n: INT, tags: ARRAY<STRING>>>,
  attributes MAP<STRING, INT>,
  by_day MAP<STRING, ARRAY<DATE>>,
  deep ARRAY<MAP<STRING, DECIMAL(4,1)>>,
  channel STRING AS coalesce(items[0].tags[0], 'none')
)"""
VIEW = """CREATE MATERIALIZED VIEW sold AS
SELECT address.city, channel, count(*) AS orders, sum(items[0].price) AS first, sum(size(items)) AS items,
       sum(attributes['points']) AS points, count(deep) AS deep,
       count(*) FILTER (WHERE by_day['x'][0] IS NOT NULL) AS dated,
       count(*) FILTER (WHERE array_contains(items[1].tags, 'b')) AS tagged
FROM orders GROUP BY address.city, channel"""

NOTHING = {"orders": 0, "first": None, "items": None, "points": None, "deep": 0, "dated": 0, "tagged": 0}


def order(chance: random.Random, number: int) -> dict[str, Any]:
    event: dict[str, Any] = {"id": number, "unknown": {"a": [1, {"b": None}]}}
    if chance.random() < 0.9:
        event["address"] = chance.choice([None, {}, {"city": "Rome", "zip": 1}, {"city": "Oslo", "geo": {"lat": 1.5}}])
    if chance.random() < 0.9:
        event["items"] = [
            {
                "price": chance.randrange(10_000) / 100,
                "n": 1,
                "tags": chance.choice([None, [], ["a"], ["b", None, "a"]]),
            }
            for _ in range(chance.randrange(3))
        ]
    event["attributes"] = chance.choice([None, {}, {"points": chance.randrange(9)}, {"other": 1, "points": None}])
    event["by_day"] = chance.choice([None, {"x": []}, {"x": ["2026-03-01", None]}])
    event["deep"] = chance.choice([None, [], [{"a": 1.5}, None, {}]])
    return event


def reference(events: list[dict[str, Any]]) -> dict[tuple[Any, Any], dict[str, Any]]:
    rows: dict[tuple[Any, Any], dict[str, Any]] = defaultdict(lambda: dict(NOTHING))
    for event in events:
        items = event.get("items")
        tags = [item["tags"] or [] for item in items or []]
        row = rows[((event.get("address") or {}).get("city"), (tags[0][:1] or ["none"])[0] if tags else "none")]
        row["orders"] += 1
        for column, value in (
            ("first", Decimal(str(items[0]["price"])) if items else None),
            ("items", None if items is None else len(items)),
            ("points", (event["attributes"] or {}).get("points")),
        ):
            if value is not None:
                row[column] = (row[column] or 0) + value
        row["deep"] += event["deep"] is not None
        row["dated"] += bool((event["by_day"] or {}).get("x"))
        row["tagged"] += len(tags) > 1 and "b" in tags[1]
    return rows


def test_parts_of_nested_fields_are_keys_and_sums(spark: Any, tmp_path: Path) -> None:
    chance = random.Random(4)
    events = [order(chance, number) for number in range(2_000)]
    bench = Bench(spark, tmp_path, STREAM)
    try:
        view = bench.add_view(VIEW)
        assert analyse(spark, bench.stream, view) is None
        for at in (0, 1_200):
            lines = [json.dumps(event).encode() for event in events[at : at + 1_200]]
            bench.post(lines, key=str(at), keep_bad=bool(at))
            bench.commit()
        bench.maintain()
        rows = bench.ask("sold", chance)
        plain = {(row["city"], row["channel"]): {name: row[name] for name in NOTHING} for row in rows}
        assert plain == reference(events)
    finally:
        bench.close()
