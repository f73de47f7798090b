"""Functions and aggregates of a workspace give equal rows in both lanes and both layers, and those of plain Python."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from headrace.define.catalog import load
from headrace.define.fingerprint import fingerprint
from tests.own_code import SQL, geometric_mean, write_definitions

from .bench import Bench

STREAM = SQL.partition("CREATE MATERIALIZED VIEW")[0]
COMMITS = 4


def readings(seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "sensor": chance.choice(["a1", "a2", "b1", "é"]),
            "c": chance.choice([None, -20.0, 0.0, chance.uniform(-30, 60)]),
            "k": chance.choice([None, chance.randrange(50)]),
            "at": f"2026-03-01T12:0{chance.randrange(3)}:00Z",
        }
        for _ in range(60)
    ]


def fahrenheit(celsius: float | None) -> float | None:
    return None if celsius is None else celsius * 1.8 + 32.0


def expected(events: list[dict[str, Any]]) -> dict[str, Any]:
    """By room, over all time."""
    kept = [each for each in events if each["c"] is None or fahrenheit(each["c"]) > 0]  # type: ignore[operator]
    rows = {}
    for room in {each["sensor"][:1] for each in kept}:
        own = [each for each in kept if each["sensor"][:1] == room]
        heat = [value for each in own if (value := fahrenheit(each["c"])) is not None]
        total = [value for each in own if (value := fahrenheit(each["k"])) is not None]
        rows[room] = {
            "n": len(own),
            "most": max(heat, default=None),
            "total": sum(total) if total else None,
            "hot": sum(value > 100 for value in heat),
            "mean": geometric_mean([each["c"] for each in own]),
            "other": geometric_mean([fahrenheit(each["k"]) for each in own if each["c"] is not None and each["c"] > 0]),
        }
    return rows


def asked(bench: Bench) -> dict[str, Any]:
    rows = bench.answer("heat", window="all").rows()
    names = ("n", "most", "total", "hot", "mean", "other")
    return {row["room"]: {name: row[name] for name in names} for row in rows}


@pytest.mark.parametrize("lane", ["fused", "spark"])
def test_both_lanes_and_both_layers_agree_with_plain_python(spark: Any, tmp_path: Path, lane: str) -> None:
    catalog = load(write_definitions(tmp_path / "definitions"))
    view = catalog.views["heat"]
    bench = Bench(spark, tmp_path / "data", STREAM, fused=lane == "fused")
    bench.store.register(view, fingerprint(view), catalog.patience_ms(view))
    events: list[dict[str, Any]] = []
    for number in range(COMMITS):
        some = readings(number)
        events += some
        bench.post([orjson.dumps(each) for each in some], str(number), keep_bad=False)
        bench.commit()
        bench.maintain()
        if lane == "fused":
            assert not bench.fused.failures
        if number == 2:
            bench.beat("heat")  # it compares the layers
    rows = asked(bench)
    assert rows == {room: pytest.approx(row, rel=1e-9) for room, row in expected(events).items()}
    with bench.store.snapshot() as snapshot:
        (audit,) = snapshot.audits("heat")
    assert not audit.drift
    bench.close()
