"""A stream with several cases: events arrive, are committed and compacted; each case has its own life cycle."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from headrace.lake.upkeep import Compaction
from headrace.maintain.batch_layer import BatchSizes

from .bench import Bench
from .case import Case
from .feed import Feed
from .generate import STREAM, make_events

AT_ONCE = 4  # cases: a Spark job with few events leaves most of a machine idle


def interpreting(spark: Any) -> Any:
    """A session whose jobs are not compiled: for few events compiling costs most, and it tests one more way to compute.

    The batch layer has a session of its own, which compiles: here the two layers share even less than they usually do.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return session


class Timeline:
    """The same from the same seed, whichever of its cases are there."""

    def __init__(self, spark: Any, folder: Path, seed: int, views: list[str]) -> None:
        self.chance = random.Random(seed)
        # As if events were many: a build or a beat is of several slices, and a beat's rows are a table of their own.
        sizes = self.chance.choice(
            [BatchSizes(), BatchSizes(50, 0, 0, 4), BatchSizes(100, 20, 0, 0), BatchSizes(50, 0, 0, 0)]
        )
        session = interpreting(spark) if seed % 2 else spark
        self.bench = Bench(session, folder, STREAM, sizes=sizes)
        self.feed = Feed(self.bench, self.chance)
        self.compaction = Compaction(self.bench.table, gather=2)
        self.rounds = self.chance.randint(3, 5)
        self.cases = [Case(self.bench, self.feed, seed, name, self.rounds) for name in views]

    def run(self) -> None:
        """From the first event to the last check."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            events = make_events(self.chance, self.chance.choice([5, 60, 120, 200]))
            self.chance.shuffle(events)
            for at in range(self.rounds):
                self._come(events[at :: self.rounds] if at else [])  # the first views exist before any event
                shapes = [case.decide(at) for case in self.cases]
                self.bench.reconcile([shape.sql for shape in shapes if shape])
                list(pool.map(Case.live, self.cases))
            self._come(events[0 :: self.rounds])
            self.feed.commit_all()
            self._settle(pool)
            list(pool.map(Case.speak_by_speed_alone, self.cases))
            self.bench.maintain()
            list(pool.map(Case.check_layers, self.cases))

    def _come(self, events: list[dict[str, Any]]) -> None:
        self.feed.send(events)
        for _ in range(self.chance.choice([1, 1, 2, 3])):
            self.feed.commit_some()
        if self.chance.random() < 0.3:
            self.compaction.run_once()
        if self.chance.random() < 0.8:  # else the next step is of more commits
            self.bench.maintain()

    def _settle(self, pool: ThreadPoolExecutor) -> None:
        """Let all builds and rollbacks end: twice, since a version may have to catch up in between."""
        for _ in range(2):
            self.bench.maintain()
            list(pool.map(lambda case: case.work(100), self.cases))

    def close(self) -> None:
        self.bench.close()
