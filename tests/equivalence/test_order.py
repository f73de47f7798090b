"""An aggregate over several arguments, whose ties the order of events breaks, through both layers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from headrace.aggregate import REGISTRY
from headrace.maintain.partials_job import read_events
from headrace.serve.past.cell_events import COLUMNS, read_page
from tests.aggregates import TEST_ONLY

from .bench import Bench

STREAM = "CREATE STREAM events (word STRING, small INT, ratio DOUBLE, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);"
VIEW = """CREATE MATERIALIZED VIEW v AS
SELECT newest_by(word, small) AS best, newest_by(small, ratio) FILTER (WHERE word <> 'b') AS other,
       count_above(ratio, 1.5) AS above, tally() AS n
FROM events GROUP BY window(at, '2 minutes', '1 minute');"""


def test_ties_are_broken_by_time_and_position_in_both_layers(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cls in TEST_ONLY:
        monkeypatch.setitem(REGISTRY, cls.name, cls)
    chance = random.Random(5)
    events = [
        {
            "word": chance.choice(["a", "b", "c", None]),
            "small": chance.choice([None, 1, 2]),
            "ratio": chance.choice([None, 1.0, 2.0]),
            "second": chance.choice([10, 20, 70, 80]),
        }
        for _ in range(60)
    ]
    bench = Bench(spark, tmp_path, STREAM)
    bench.add_view(VIEW)
    for number in range(6):
        bench.post([_line(event) for event in events[number * 10 : number * 10 + 10]], str(number), keep_bad=False)
        bench.commit()
        bench.maintain()
        if number == 3:
            bench.beat("v")  # compares the two layers before it takes over
    rows = {row["window_start"].minute: row for row in bench.answer("v").rows()}
    with bench.store.snapshot() as snapshot:
        (version,) = snapshot.versions()
    assert version.bases[0].horizon == 4
    for minute, of in ((59, [0]), (0, [0, 1]), (1, [1])):
        own = [(at, event) for at, event in enumerate(events) if event["second"] // 60 in of]
        row = rows[minute]
        filtered = [(at, event) for at, event in own if event["word"] not in ("b", None)]
        assert row["best"] == _newest(own, "word", "small")
        assert row["other"] == _newest(filtered, "small", "ratio")
        assert row["above"] == sum(event["ratio"] == 2.0 for _, event in own)
        assert row["n"] == len(own)
    with bench.table.reading(0, 6) as files:
        behind = read_events(spark, bench.table.storage, bench.stream, files, (0, 6), COLUMNS)
        (first,) = read_page(behind, bench.stream, version, None, 1)
    word, small = ("null" if events[0][name] is None else events[0][name] for name in ("word", "small"))
    assert (first["a0"], first["a3"]) == (f"{{{word}, {small}}}", 1)  # the arguments of the aggregates
    bench.close()


def _newest(events: list[tuple[int, dict[str, Any]]], value: str, by: str) -> Any:
    ranked = [((event[by], event["second"], at), event[value]) for at, event in events if event[by] is not None]
    return max(ranked)[1]


def _line(event: dict[str, Any]) -> bytes:
    at = f"2026-03-01T12:0{event['second'] // 60}:{event['second'] % 60}Z"
    return json.dumps({"word": event["word"], "small": event["small"], "ratio": event["ratio"], "at": at}).encode()
