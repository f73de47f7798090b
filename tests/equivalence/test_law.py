"""The law: any split into commits, any order of arrival, retried posts, late events: one answer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from headrace.aggregate import REGISTRY

from .bench import Bench
from .feed import Feed
from .generate import STREAM, make_events, make_shape
from .reference import COLUMNS, differences


def test_what_has_no_reference_is_compared_exactly() -> None:
    assert set(COLUMNS) <= set(REGISTRY)
    assert not [name for name in set(REGISTRY) - set(COLUMNS) if REGISTRY[name].approximate or REGISTRY[name].ordered]


@pytest.mark.parametrize("seed", range(8))
def test_views_equal_the_reference(spark: Any, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    bench = Bench(spark, tmp_path, STREAM)
    shapes = [make_shape(chance, f"v{i}") for i in range(2)]
    late_shape = make_shape(chance, "late")
    for shape in shapes:
        bench.add_view(shape.sql)
    events = make_events(chance, chance.choice([0, 1, 40, 150]))
    chance.shuffle(events)
    feed = Feed(bench, chance)
    feed.send(events)
    while feed.commit_some():
        if chance.random() < 0.6:
            bench.maintain()
    bench.add_view(late_shape.sql)  # over history
    bench.maintain()
    assert bench.table.rows() == len(events)
    assert bench.table.rows(dead=True) == feed.dead
    for shape in [*shapes, late_shape]:
        wrong = differences(shape, bench.ask(shape.name, chance), events)
        assert not wrong, (seed, shape.sql, wrong[:3])
    bench.close()


def test_one_answer_for_all_splits(spark: Any, tmp_path: Path) -> None:
    """The same events, split and ordered in three ways, give rows that are equal to the last digit of each sketch."""
    chance = random.Random(99)
    shape = make_shape(chance, "v")
    events = make_events(chance, 120)
    answers = []
    for run in range(3):
        bench = Bench(spark, tmp_path / str(run), STREAM)
        bench.add_view(shape.sql)
        own = random.Random(run)
        own.shuffle(events)
        feed = Feed(bench, own)
        feed.send(events)
        while feed.commit_some():
            bench.maintain()
        sketches = [o.name for o in shape.outputs if o.aggregate.approximate]
        rows = bench.ask("v", own)
        answers.append({(r["window_start"], *(r[n] for n, _ in shape.keys)): [r[s] for s in sketches] for r in rows})
        bench.close()
    assert answers[0] == answers[1] == answers[2]


def test_corrections_are_counted(spark: Any, tmp_path: Path) -> None:
    """An event for a pane that was settled when it came is applied, counted and visible."""
    bench = Bench(spark, tmp_path, STREAM)
    bench.add_view("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM events GROUP BY window(at, '1 minute')")
    posts = [["12:00:10", "12:00:50"], ["12:05:00"], ["12:00:20", "12:04:59"]]
    for number, times in enumerate(posts):
        lines = [b'{"id":1,"at":"2026-03-01T%sZ"}' % t.encode() for t in times]
        bench.post(lines, str(number), keep_bad=False)
        bench.commit()
        bench.maintain()
    answer = bench.answer("v")
    assert answer.corrections == 1  # 12:04:59 came when its pane was still provisional
    assert [(row["n"], row["settled"]) for row in answer.rows()] == [(3, True), (1, False), (1, False)]
    bench.close()
