"""Fields are added to a running stream: views over them read all of history, as plain Python reads the raw events."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headrace.lake.upkeep import Compaction
from headrace.serve.sql.event_queries import SYSTEM_COLUMNS

from .bench import Bench

# Each field with values that fit it and values that do not.
FIELDS: dict[str, tuple[str, list[Any], list[Any]]] = {
    "country": ("STRING", ["de", "fr", ""], [5, True, ["de"], {"a": 1}]),
    "n": ("BIGINT", [1, -7, 1 << 40], ["1", 1.5, 1 << 63]),
    "price": ("DECIMAL(8,2)", [1, "2.50"], [True, "x", 1.234]),
    "tags": ("ARRAY<STRING>", [[], ["a", None], ["a", "b", "c"]], ["a", [1], {}]),
    "address": ("STRUCT<city: STRING, zip: INT>", [{"city": "Ulm"}, {"zip": 1, "x": 2}], [[], {"zip": "1"}]),
    "low": ("STRING AS concat('<', name, '>')", [], []),
}
DECLARED = [name for name, (sql, _, _) in FIELDS.items() if " AS " not in sql]
VIEW = """CREATE MATERIALIZED VIEW v AS
SELECT country, low, count(*) AS hits, count(n) AS ns, sum(n) AS n, max(price) AS price, sum(size(tags)) AS tags,
  count(address) AS addresses, max(address.city) AS city, min(id) AS first
FROM s GROUP BY country, low"""
OLD = "CREATE MATERIALIZED VIEW old AS SELECT name, count(*) AS hits FROM s GROUP BY name"


class Source:
    """The truth: raw events as they were sent, those that were accepted."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.names: list[str] = []
        self.lines: list[bytes] = []
        self._next = 0

    def sql(self, loosened: bool) -> str:
        own = [f"id {'BIGINT' if loosened else 'INT NOT NULL'}", "name STRING"]
        for name in self.names:  # anywhere in the list, but always at the same place
            own.insert(sum(map(ord, name)) % 2 * len(own), f"{name} {FIELDS[name][0]}")
        return f"CREATE STREAM s ({', '.join(own)})"

    def events(self, count: int) -> list[bytes]:
        lines = []
        for _ in range(count):
            event: dict[str, Any] = {"id": self._next, "name": self.chance.choice(["x", "y"])}
            self._next += 1
            for name in DECLARED:
                _, good, bad = FIELDS[name]
                if self.chance.random() < 0.7:
                    event[name] = self.chance.choice([*good, *good, None, *bad])
            lines.append(json.dumps(event, ensure_ascii=self.chance.random() < 0.5).encode())
        return lines


def fits(name: str, value: Any) -> bool:
    return value is None or any(type(value) is type(good) and value == good for good in FIELDS[name][1])


def expected(lines: list[bytes]) -> dict[tuple[Any, Any], dict[str, Any]]:
    rows: dict[tuple[Any, Any], dict[str, Any]] = defaultdict(
        lambda: {
            "hits": 0,
            "ns": 0,
            "n": None,
            "price": None,
            "tags": None,
            "addresses": 0,
            "city": None,
            "first": None,
        }
    )
    for line in lines:
        raw = json.loads(line)
        event = {name: raw.get(name) if fits(name, raw.get(name)) else None for name in DECLARED}
        row = rows[event["country"], f"<{raw['name']}>"]
        row["hits"] += 1
        if event["n"] is not None:
            row["ns"], row["n"] = row["ns"] + 1, (row["n"] or 0) + event["n"]
        if event["price"] is not None:
            row["price"] = max(row["price"] or Decimal(0), Decimal(event["price"]))
        if event["tags"] is not None:
            row["tags"] = (row["tags"] or 0) + len(event["tags"])
        if event["address"] is not None:
            row["addresses"] += 1
            row["city"] = max(filter(None, [row["city"], event["address"].get("city")]), default=None)
        row["first"] = raw["id"] if row["first"] is None else min(row["first"], raw["id"])
    return dict(rows)


@pytest.mark.parametrize(("seed", "by_build"), [(1, False), (2, True)])
def test_views_over_added_fields_have_all_of_history(spark: Any, tmp_path: Path, seed: int, by_build: bool) -> None:
    """By the speed layer from the first commit on, and by a build of the batch layer."""
    chance = random.Random(seed)
    source = Source(chance)
    bench = Bench(spark, tmp_path, source.sql(False))
    bench.add_view(OLD)
    names = list(FIELDS)
    chance.shuffle(names)
    loosened = False
    while names:
        send(bench, source, chance.choice([1, 30]))
        if chance.random() < 0.5:
            commit(bench)  # else the events are only in the journal when the field is added
        for _ in range(chance.choice([1, 2])):
            source.names += [names.pop()] if names else []
        loosened = loosened or chance.random() < 0.3
        bench.redefine(source.sql(loosened))
        if chance.random() < 0.5:
            commit(bench)
            Compaction(bench.table, gather=2).run_once()
        bench.maintain()
    send(bench, source, 30)
    commit(bench)
    assert not bench.lines(dead=True)
    while Compaction(bench.table, gather=2).run_once():
        pass
    view = bench.add_view(VIEW)
    if by_build:
        bench.edit_view(view)
        bench.work()
    bench.maintain()
    answers = {
        (row["country"], row["low"]): {
            name: row[name] for name in row if name in next(iter(expected(source.lines).values()))
        }
        for row in bench.ask("v", chance)
    }
    assert answers == expected(source.lines)
    assert sum(row["hits"] for row in bench.ask("old", chance)) == len(source.lines)
    check_other_readers(bench, source)
    bench.close()


def send(bench: Bench, source: Source, count: int) -> None:
    """Events that the current definition refuses are not part of the truth."""
    lines = source.events(count)
    reply = bench.post(lines, f"{len(source.lines)}-{len(lines)}-{lines[0]!r}", keep_bad=False)
    indexes = {each["index"] for each in reply.refused}
    strict = [name for name in source.names if name in DECLARED]
    bad = {i for i, line in enumerate(lines) if not all(fits(name, json.loads(line).get(name)) for name in strict)}
    assert indexes == bad
    source.lines += [line for index, line in enumerate(lines) if index not in indexes]


def commit(bench: Bench) -> None:
    if bench.journal.end != bench.table.state.position:
        bench.commit()


def check_other_readers(bench: Bench, source: Source) -> None:
    """Other readers of the Delta table find the columns, NULL where a file has none."""
    table = DeltaTable(bench.table.folder).to_pyarrow_table()
    assert {*FIELDS, "id", "name", *SYSTEM_COLUMNS} <= set(table.column_names)
    assert sorted(table["_value"].to_pylist()) == sorted(source.lines)
