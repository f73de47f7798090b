"""Expressions over aggregates, HAVING and ORDER BY: answers equal Spark's batch SQL over all events, in both lanes.

HEADRACE_SHAPE_CASES sets how many views are compared.
"""

# ruff: noqa: E501 - one case per line

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from headrace.define.catalog import Catalog, parse
from headrace.errors import DefinitionError
from headrace.store.selection import rank

from .bench import Bench
from .feed import Feed
from .generate import STREAM, make_events

CASES = int(os.environ.get("HEADRACE_SHAPE_CASES", "30"))
FIELDS = "id BIGINT, word STRING, small INT, big BIGINT, ratio DOUBLE, price DECIMAL(12,2), flag BOOLEAN, day DATE, at TIMESTAMP"
AGGREGATES = [
    "count(*)", "count(small)", "sum(small)", "sum(price)", "avg(small)", "avg(price)", "max(price)", "min(small)", "max(big)",
    "count(*) FILTER (WHERE flag)", "sum(CASE WHEN small > 0 THEN 1 ELSE 0 END)", "sum(price) FILTER (WHERE small < 0)",
    "sum(price * small)", "max(small)",
]  # fmt: skip
GROUPS = ["word", "flag", "upper(word)", "day"]
WINDOWS = ["window(at, '1 minute')", "window(at, '5 minutes', '1 minute')", None]


def number(chance: random.Random, depth: int) -> str:
    """A random expression over aggregates, without a promise that it is valid."""
    if depth == 0 or chance.random() < 0.15:
        return chance.choice(AGGREGATES) if chance.random() < 0.8 else chance.choice(["0", "2", "2.5", "100.0", "1e2"])
    a, b, c = (number(chance, depth - 1) for _ in range(3))
    return chance.choice([
        *(f"({a} {op} {b})" for op in ("+", "-", "*", "/", "/", "%")), f"100.0 * {a} / {b}", f"round({a}, {chance.randint(0, 3)})",
        f"coalesce({a}, {b})", f"nullif({a}, {b})", f"greatest({a}, {b})", f"abs({a})", f"CASE WHEN {a} > {b} THEN {c} ELSE {a} END",
        f"CAST({a} AS {chance.choice(('INT', 'BIGINT', 'DOUBLE', 'DECIMAL(20,4)'))})", f"floor({a})", f"if({a} IS NULL, {b}, {c})",
    ])  # fmt: skip


def select(chance: random.Random) -> tuple[str, str, list[str]]:
    """SELECT with HAVING as we read it, the same for Spark, and the names of the outputs."""
    keys = chance.sample(GROUPS, chance.randint(0, 2))
    window = chance.choice(WINDOWS)
    drawn = [number(chance, chance.randint(0, 3)) for _ in range(chance.randint(1, 4))]
    # Spark takes a constant of HAVING for an output that is the same constant.
    outputs = {f"o{at}": sql if "(" in sql else "count(*)" for at, sql in enumerate(drawn)}
    if keys and chance.random() < 0.4:
        outputs["label"] = f"concat(CAST({keys[0]} AS STRING), ':', CAST(count(*) AS STRING))"
    named = [f"{key} AS k{at}" for at, key in enumerate(keys)] + [f"{sql} AS {name}" for name, sql in outputs.items()]
    groups = ", ".join([*keys, *([window] if window else [])])
    rest = f"FROM events{f' GROUP BY {groups}' if groups else ''}"
    if chance.random() < 0.6:
        rest += f" HAVING {number(chance, 1)} {chance.choice(('>', '<=', '<>'))} {number(chance, 1)}"
    if chance.random() < 0.6:
        descending, nulls = chance.choice(("", " DESC")), chance.choice(("", " NULLS FIRST", " NULLS LAST"))
        rest += f" ORDER BY {chance.choice(list(outputs))}{descending}{nulls}"
    start = ["window.start AS ws"] if window else []
    return f"SELECT {', '.join(named)} {rest}", f"SELECT {', '.join([*named, *start])} {rest}", list(outputs)


def is_valid(catalog: Catalog, sql: str) -> bool:
    try:
        parse(f"CREATE MATERIALIZED VIEW v AS {sql}", known=catalog)
    except DefinitionError:
        return False
    return True


def close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b) or abs(a - b) <= 1e-9 * max(abs(a), abs(b))
    return bool(a == b)


def test_answers_equal_batch_sql_over_all_events(spark: Any, tmp_path: Path) -> None:
    chance = random.Random("shapes")
    benches = [Bench(spark, tmp_path / str(lane), STREAM, fused=lane) for lane in (True, False)]
    views: dict[str, tuple[str, str, list[str]]] = {}
    while len(views) < CASES:
        case = select(chance)
        if is_valid(benches[0].catalog, case[0]):
            name = f"v{len(views)}"
            views[name] = case
            for bench in benches:
                bench.add_view(f"CREATE MATERIALIZED VIEW {name} AS {case[0]}")
    events = make_events(chance, 150)
    for bench in benches:
        feed = Feed(bench, random.Random(3))
        feed.send(events)
        while feed.commit_some():
            bench.maintain()
        bench.maintain()
    names = [field.split(" ")[0] for field in FIELDS.split(", ")]
    spark.createDataFrame([tuple(event[name] for name in names) for event in events], FIELDS).createOrReplaceTempView(
        "events"
    )
    for name, (sql, batch, outputs) in views.items():
        theirs = [row.asDict() for row in spark.sql(batch).collect()]
        for bench in benches:
            compare(bench.answer(name).rows(), theirs, sql, outputs)
    for bench in benches:
        bench.close()


def compare(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], sql: str, outputs: list[str]) -> None:
    keys = [name for name in (theirs[0] if theirs else []) if name not in outputs]

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        start = row.get("ws") or row.get("window_start")
        return tuple(rank(row[name]) for name in keys if name != "ws"), start and start.timestamp()

    by_place = {place(row): row for row in theirs}
    assert {place(row) for row in ours} == set(by_place), sql
    for row in ours:
        expected = by_place[place(row)]
        wrong = [(name, row[name], expected[name]) for name in outputs if not close(row[name], expected[name])]
        assert not wrong, (sql, wrong)
    if " ORDER BY " in sql:
        by = sql.split(" ORDER BY ")[1].split(" ")[0]
        assert all(close(a[by], b[by]) for a, b in zip(ours, theirs, strict=True)), sql
