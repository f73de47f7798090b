"""Derived streams with an event time of their own: it says what is settled, whatever computes the rows and when."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.define.model import View
from headrace.serve.explanation import CellQuestion
from headrace.serve.freshness import up_to_date
from headrace.serve.past.past_questions import LakeQuestions
from headrace.serve.question import Question
from headrace.store.version import Version

from .bench import Bench

ORDERS = "CREATE STREAM orders (id INT, shipped STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at)"
SHIPPED = """
CREATE STREAM shipped (WATERMARK FOR sent AS sent - INTERVAL 2 MINUTES) AS
SELECT id, to_timestamp(shipped) AS sent FROM orders;
CREATE MATERIALIZED VIEW sends AS
SELECT id, count(*) AS n FROM shipped WHERE id <> 9 GROUP BY id, window(sent, '1 minute')"""
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
Commits = list[list[datetime]]  # the new event times of each


class World:
    """A stream whose events name another time, which lies a day before theirs, and a view over rows with that time."""

    def __init__(self, spark: Any, folder: Path, *, fused: bool) -> None:
        folder.mkdir()
        self.bench = Bench(spark, folder, ORDERS, fused=fused)
        self.view: View = self.bench.add_view(SHIPPED)
        self.commits: Commits = []

    def commit(self, seconds: list[int], *, other: datetime | None = None) -> None:
        times = [START - DAY + timedelta(seconds=second) for second in seconds]
        self.commits.append(times)
        events = [{"id": i % 3, "shipped": f"{time:%F %T}", "at": START.isoformat()} for i, time in enumerate(times)]
        if other:  # of a row that the view leaves out
            events.append({"id": 9, "shipped": f"{other:%F %T}", "at": (START + DAY).isoformat()})
        events.append({"id": 1, "shipped": None, "at": (START + DAY).isoformat()})  # no row
        lines = [json.dumps(event).encode() for event in events]
        self.bench.post(lines, str(len(self.commits)), keep_bad=False)
        self.bench.commit()

    def serving(self) -> Version:
        with self.bench.store.snapshot() as snapshot:
            version = snapshot.serving("sends")
        assert version is not None
        return version

    def check(self) -> None:
        version = self.serving()
        newest = newest_of(self.commits[: version.base("orders").applied_to])
        answer = self.bench.answer("sends")
        assert answer.newest_event == newest
        assert answer.corrections == 0
        for row in answer.rows():
            assert newest is not None
            assert row["settled"] == (row["window_end"] + timedelta(minutes=2) <= newest)


def newest_of(commits: Commits) -> datetime | None:
    return max((time for times in commits for time in times), default=None)


@pytest.mark.parametrize("fused", [True, False])
def test_a_new_event_time_says_what_is_settled(spark: Any, tmp_path: Path, *, fused: bool) -> None:
    chance = random.Random("own time")
    world = World(spark, tmp_path / "world", fused=fused)
    try:
        for _ in range(6):
            world.commit([chance.randrange(600) for _ in range(chance.randint(1, 5))], other=START)
            if chance.random() < 0.7:
                world.bench.maintain()
            if chance.random() < 0.4:
                world.bench.beat("sends")
            world.check()
        world.bench.maintain()
        before = world.bench.answer("sends")
        world.bench.be_idle(60_000_000 * 60 * 48)
        world.bench.maintain()
        idle = world.bench.answer("sends")
        assert (idle.rows(), idle.newest_event) == (before.rows(), before.newest_event)
        assert not world.bench.fused.failures
        assert any(row["settled"] for row in before.rows())
        assert not all(row["settled"] for row in before.rows())
        world.bench.edit_view(world.view)  # a build of the whole log
        world.bench.work()
        built = world.bench.answer("sends")
        assert built.version != before.version
        assert (built.rows(), built.newest_event) == (before.rows(), before.newest_event)
        world.commit([700])
        world.bench.maintain()
        world.check()
        _check_past(spark, world, tmp_path / "past")
    finally:
        world.bench.close()


def _check_past(spark: Any, world: World, folder: Path) -> None:
    bench = world.bench
    questions = LakeQuestions(bench.store, lambda name: (bench.stream, bench.table), lambda: spark, up_to_date, folder)
    past = questions.ask(Question.of("sends", version_as_of=2))
    assert past.newest_event == newest_of(world.commits[:2])
    row = past.rows()[0]
    found = questions.explain(CellQuestion.of("sends", {"id": row["id"]}, at=row["window_start"].isoformat()))
    assert found.agrees
    assert not any(event.late or event.correction for event in found.events)
    questions.close()


def test_a_time_that_runs_ahead_settles_nothing_before_its_arrival(spark: Any, tmp_path: Path) -> None:
    for fused in (True, False):
        world = World(spark, tmp_path / str(fused), fused=fused)
        try:
            began = datetime.now(UTC)
            world.commit([int((began - START + 2 * DAY).total_seconds())])
            world.bench.maintain()
            newest = world.bench.answer("sends").newest_event
            assert newest is not None
            assert began <= newest <= datetime.now(UTC)
        finally:
            world.bench.close()
