"""The law: any split into commits, any order of arrival, retried posts, late events: one answer."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from headrace.aggregate import REGISTRY
from headrace.lake.delta_table import LakeTable
from headrace.lake.lateness_histogram import Lateness
from headrace.lake.lateness_record import read_lateness

from .bench import Bench
from .feed import Feed
from .generate import STREAM, make_events, make_shape
from .near import NEAR
from .reference import COLUMNS, ORDERED, differences


def test_what_has_no_reference_is_compared_exactly() -> None:
    known = {*COLUMNS, *NEAR, *ORDERED}
    assert known <= set(REGISTRY)
    assert not [name for name in set(REGISTRY) - known if REGISTRY[name].approximate or REGISTRY[name].ordered]


def count_late(feed: Feed) -> int:
    """How many events were behind the time of the stream before their commit."""
    time_us, late = -math.inf, 0
    for number, events in enumerate(feed.commits):
        times = [round(event["at"].timestamp() * 1e6) for event in events]
        late += sum(time < time_us for time in times)
        time_us = max([time_us, feed.idle_us.get(number, time_us), *times])
    return late


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
    bench.lateness.catch_up()  # over commits of a stream that was idle
    assert bench.lateness.days == read_lateness(bench.table, bench.stream)
    measured = sum(bench.lateness.days.values(), Lateness())
    assert (measured.events, measured.events - measured.on_time) == (len(events), count_late(feed))
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


@pytest.mark.parametrize("fused", [True, False], ids=["fused lane", "Spark"])
def test_an_idle_stream_settles_and_never_reverts(spark: Any, tmp_path: Path, fused: bool) -> None:
    """Both lanes, a build and a restart count the same corrections; the newest event stays what it was."""
    bench = Bench(spark, tmp_path, STREAM, fused=fused)
    bench.add_view("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM events GROUP BY window(at, '1 minute')")

    def send(number: int, *times: str) -> None:
        bench.post([b'{"id":1,"at":"2026-03-01T%sZ"}' % time.encode() for time in times], str(number), keep_bad=False)
        bench.commit()
        bench.maintain()

    def state() -> list[tuple[int, bool, int]]:
        rows = bench.answer("v", corrections=True).rows()
        return [(row["n"], row["settled"], row["corrections"]) for row in rows]

    send(0, "12:00:10", "12:03:00")
    assert state() == [(1, True, 0), (1, False, 0)]
    bench.be_idle(10 * 60_000_000)
    bench.maintain()
    assert state() == [(1, True, 0), (1, True, 0)]
    assert str(bench.answer("v").newest_event) == "2026-03-01 12:03:00+00:00"
    send(1, "12:03:30", "12:09:00", "12:12:30")  # the first two came when their panes were settled
    assert state() == [(1, True, 0), (2, True, 1), (1, True, 1), (1, False, 0)]
    assert bench.answer("v").corrections == 2
    again = LakeTable(bench.table.folder, bench.stream, fence=None).state
    assert (again, again.idle_us) == (bench.table.state, bench.table.state.idle_us)
    with bench.store.snapshot() as snapshot:
        serving = snapshot.serving("v")
    assert serving is not None
    bench.edit_view(serving.view)  # built from the lake
    bench.work()
    with bench.store.snapshot() as snapshot:
        built = snapshot.serving("v")
    assert built is not None
    assert (built.number, built.bases[0].horizon) == (serving.number + 1, bench.table.state.next_commit)
    assert state() == [(1, True, 0), (2, True, 1), (1, True, 1), (1, False, 0)]
    bench.close()
