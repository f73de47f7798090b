"""Fields from anywhere in the event, with names of any characters, from the request to a view's rows, in both lanes."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.duckdb_relations import refuse_duckdb
from headrace.maintain.partials_job import analyse
from tests.equivalence.bench import Bench

STREAM = r"""CREATE STREAM logs (
  `@timestamp` TIMESTAMP NOT NULL,
  "log level" STRING FROM 'log.level',
  `$.svc "a" ``b``` STRING FROM '$.service.name',
  `first.sku` STRING FROM '$.items[0].sku',
  `user-id, {=;}` BIGINT FROM 'user-id',
  `größe/日本` DOUBLE FROM '$["a size"]["größe"]',
  `Now'` STRING AS concat("log level", '!'),
  WATERMARK FOR `@timestamp` AS `@timestamp` - INTERVAL '1' MINUTE)"""
FUSED = r"""CREATE MATERIALIZED VIEW fused AS
SELECT `$.svc "a" ``b``` , `Now'`, "user-id, {=;}" % 3 AS `a "b" ``c``.d, {=;} é'`, count(*) AS "how many?",
  sum(`größe/日本`) AS `Σ größe.x`, approx_count_distinct(`first.sku`) AS `%`
FROM logs WHERE "log level" <> 'DEBUG'
GROUP BY `$.svc "a" ``b```,  `Now'`, `a "b" ``c``.d, {=;} é'`, window(`@timestamp`, '1 minute')"""
SPARK = FUSED.replace("VIEW fused", "VIEW spark").replace("`Now'`", "initcap(`Now'`)")
SPARK = SPARK.replace("initcap(`Now'`)", "initcap(`Now'`) AS `Now'`", 1)


def event(chance: random.Random) -> dict[str, Any]:
    second, minute = chance.randrange(60), chance.randrange(3)
    made: dict[str, Any] = {"@timestamp": f"2026-03-01T12:{minute:02}:{second:02}Z", "log": {"level": "nested"}}
    made["log.level"] = chance.choice(["INFO", "ERROR", "DEBUG", None])
    made["service"] = chance.choice([None, {}, {"name": "web"}, {"name": "api", "id": 7}, "text", ["name"]])
    made["items"] = chance.choice([None, [], [{}], [{"sku": "x"}, {"sku": 5}], [{"sku": "y"}], {"sku": "z"}])
    made["user-id"] = chance.choice([None, 5, 77, -3])
    made["a size"] = chance.choice([None, {"größe": 1.5}, {"größe": 2, "Größe": 9}])
    return made


def reference(events: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    rows: Counter[tuple[Any, ...]] = Counter()
    for made in events:
        if made["log.level"] in (None, "DEBUG"):
            continue
        service, user = made["service"], made["user-id"]
        name = service.get("name") if isinstance(service, dict) else None
        rest = None if user is None else user % 3 if user >= 0 else -(-user % 3)
        rows[(name, f"{made['log.level']}!".lower(), rest, made["@timestamp"][:16])] += 1
    return rows


@pytest.mark.parametrize("view", ["fused", "spark"])
def test_names_of_any_characters_work_from_the_request_to_the_rows(spark: Any, tmp_path: Path, view: str) -> None:
    chance = random.Random(8)
    events = [event(chance) for _ in range(3_000)]
    bench = Bench(spark, tmp_path, STREAM)
    try:
        made = bench.add_view(FUSED if view == "fused" else SPARK)
        assert (refuse_duckdb(bench.stream, made) is None) == (view == "fused")
        assert analyse(spark, bench.stream, made) is None
        for at in (0, 2_000):
            reply = bench.post([json.dumps(e).encode() for e in events[at : at + 2_000]], key=str(at), keep_bad=False)
            assert reply.refused == []
            bench.commit()
        bench.maintain()
        rows = rows_of(bench, view, chance)
        assert rows == reference(events)
        bench.beat(view)
        assert rows_of(bench, view, chance) == rows
    finally:
        bench.close()


def rows_of(bench: Bench, view: str, chance: random.Random) -> Counter[tuple[Any, ...]]:
    rows = bench.ask(view, chance)
    keys = ('$.svc "a" `b`', "Now'", 'a "b" `c`.d, {=;} é\'')
    return Counter(
        {(row[keys[0]], row[keys[1]].lower(), row[keys[2]], row["window_start"].isoformat()[:16]): row["how many?"]
         for row in rows}
    )  # fmt: skip


def test_a_field_that_is_added_later_is_found_in_older_events(spark: Any, tmp_path: Path) -> None:
    chance = random.Random(3)
    events = [event(chance) for _ in range(500)]
    bench = Bench(spark, tmp_path, STREAM)
    try:
        bench.post([json.dumps(e).encode() for e in events[:300]], key="old", keep_bad=False)
        bench.commit()
        added = "`log level.x` STRING FROM '$.log.level', `service.id` INT FROM '$.service.id', WATERMARK"
        bench.redefine(STREAM.replace("WATERMARK", added, 1))
        bench.add_view(
            'CREATE MATERIALIZED VIEW later AS SELECT `log level.x`, `service.id`, count("log level") AS n FROM logs '
            "GROUP BY `log level.x`, `service.id`"
        )
        bench.post([json.dumps(e).encode() for e in events[300:]], key="new", keep_bad=False)
        bench.commit()
        bench.maintain()
        bench.beat("later")
        expected: Counter[Any] = Counter()
        for each in events:
            service = each["service"]
            number = service.get("id") if isinstance(service, dict) else None
            expected[("nested", number)] += each["log.level"] is not None
        rows = bench.ask("later", chance)
        assert {(row["log level.x"], row["service.id"]): row["n"] for row in rows} == expected
    finally:
        bench.close()


OURS = """CREATE MATERIALIZED VIEW ours AS
SELECT `log level` AS pane, `first.sku` AS key_id, count(*) AS events, count_if(`user-id, {=;}` > 0) AS corrections,
  count(*) + 1 AS batch_events
FROM logs GROUP BY 1, 2, window(`@timestamp`, '1 minute') HAVING events > 0 ORDER BY corrections DESC"""


def test_names_of_counts_and_of_the_store_name_columns(spark: Any, tmp_path: Path) -> None:
    chance = random.Random(5)
    events = [event(chance) for _ in range(300)]
    bench = Bench(spark, tmp_path, STREAM)
    try:
        bench.add_view(OURS)
        expected = Counter((made["log.level"], made["@timestamp"][:16]) for made in events)
        positive = Counter(
            (made["log.level"], made["@timestamp"][:16]) for made in events if (made["user-id"] or 0) > 0
        )
        for number in range(2):
            lines = [json.dumps(e).encode() for e in events[number::2]]
            bench.post(lines, key=str(number), keep_bad=False)
            bench.commit()
        bench.maintain()
        for _ in range(2):
            rows = bench.ask("ours", chance, corrections=True)
            counted: Counter[Any] = Counter()
            counted_positive: Counter[Any] = Counter()
            for row in rows:
                assert row["events"] == row["_events"] == row["batch_events"] - 1
                assert row["_corrections"] <= row["_events"]
                counted[(row["pane"], row["window_start"].isoformat()[:16])] += row["events"]
                counted_positive[(row["pane"], row["window_start"].isoformat()[:16])] += row["corrections"]
            assert counted == expected
            assert counted_positive == positive
            bench.beat("ours")
        (first, *_) = bench.ask("ours", chance)
        assert list(first)[-4:] == ["events", "corrections", "batch_events", "settled"]
    finally:
        bench.close()
