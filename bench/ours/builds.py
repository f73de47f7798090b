"""Measures the batch layer: builds of a growing history, beats, and answers from it.

The product's own parts run in this process, over one lake; a version built at commit n sees the first n million events.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.ours.events import ONE_VIEW, STREAM
from bench.ours.figures import Figure, of_runs, percentile
from bench.ours.history import COMMIT_ROWS, VISITORS, VISITS, extend
from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint
from headrace.define.model import View
from headrace.errors import HeadraceError
from headrace.lake.delta_table import LakeTable
from headrace.maintain.batch_layer import BatchLayer, BatchSizes
from headrace.maintain.partials_job import read_events, write_partials
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.server.describe_view import memory_mb
from headrace.server.reconcile import point_of
from headrace.spark.build import build_session
from headrace.store.open_store import open_temporary
from headrace.store.store_contract import Step
from headrace.store.version import Point, Version

Tell = Callable[[str], None]
SIZES = (5, 10, 20)  # commits of a million events each
ROUNDS = 3
BEATS = 3
ANSWERS = 1_000
MOST_S = 300.0  # for one build
MEMORY_EVERY_S = 0.1

MORE_VIEWS = """CREATE MATERIALIZED VIEW by_visitor AS
SELECT visitor, count(*) AS hits, sum(bytes) AS bytes, max(bytes) AS largest
FROM visits GROUP BY visitor, window(at, '1 minute');
CREATE MATERIALIZED VIEW many_groups AS
SELECT visitor, bytes % 100 AS part, count(*) AS hits, sum(bytes) AS bytes, max(bytes) AS largest
FROM visits GROUP BY visitor, bytes % 100;
"""
VIEWS = parse(STREAM + ONE_VIEW + MORE_VIEWS).views


class Layers:
    """A lake of this many million events, with a store and a batch layer."""

    def __init__(self, folder: Path, commits: int) -> None:
        self.table = LakeTable(folder / "lake" / VISITS.name, VISITS, fence=1)
        extend(self.table, commits * COMMIT_ROWS)
        self._scratch = folder / "scratch"
        self.spark = build_session(self._scratch)
        self.store = open_temporary(folder)
        alone = BatchSizes(near_events=commits * COMMIT_ROWS)  # so that a version does not catch up after its build
        self.batch = BatchLayer(lambda: self.spark, VISITS, self.table, self.store, folder / "builds", sizes=alone)

    def close(self) -> None:
        self.batch.close()
        self.store.close()
        self.spark.stop()

    def build(self, view: View, commits: int) -> float:
        """Build a view from the first commits of the lake until it serves; returns the seconds."""
        start = time.monotonic()
        patience_ms, at = {VISITS.name: VISITS.patience_ms}, {VISITS.name: self._point(commits)}
        number = self.store.register(view, fingerprint(view), patience_ms, at).number
        self._until(lambda: self._is_built(view), view)
        self.store.promote(view.name, number)  # here, since the batch layer waits for the end of the lake
        took_s = time.monotonic() - start
        version = self._serving(view)
        events = sum(table.events for table in version.batch) if version else 0
        if events != commits * COMMIT_ROWS:
            raise HeadraceError(f"a build of view '{view.name}' holds {events:,} events", expected=f"{commits:,} M")
        return took_s

    def beat(self, view: View) -> float:
        """Apply one more commit by the speed layer, then run its beat; returns the seconds of the beat."""
        version = self._serving(view)
        assert version is not None, "it was built"
        self._apply(version)
        start = time.monotonic()
        self.batch.refresh(view.name)
        self._until(lambda: self._horizon(view) == version.base(VISITS.name).horizon + 1, view)
        return time.monotonic() - start

    def answer_ms(self, view: str, number: int) -> float:
        """The time of a query of one key and one hour."""
        question = Question.of(view, key={"visitor": f"u{number * 7 % VISITORS}"}, window="1h")
        start = time.perf_counter()
        result = answer(self.store, question, up_to_date, datetime.now(UTC))
        took_ms = (time.perf_counter() - start) * 1000
        if not result.rows():
            raise HeadraceError(f"the answer of view '{view}' for {question.where} has no row")
        return took_ms

    def _apply(self, version: Version) -> None:
        """Apply one commit as the speed layer does."""
        first = version.base(VISITS.name).applied_to
        commits = (first, first + 1)
        at = self._point(commits[1])
        folder = self._scratch / "step"
        events = read_events(self.spark, self.table.storage, VISITS, self.table.files(*commits), commits)
        files = write_partials(events, VISITS, version, folder)
        step = Step(VISITS.name, *commits, at.position, at.newest_us, int(time.time() * 1e6))
        self.store.apply(step, {version.id: files})
        shutil.rmtree(folder)

    def _point(self, commit: int) -> Point:
        state = self.table.state_at(commit)
        assert state is not None, "this process made the commit"
        return point_of(state)

    def _serving(self, view: View) -> Version | None:
        with self.store.snapshot() as snapshot:
            return snapshot.serving(view.name)

    def _is_built(self, view: View) -> bool:
        with self.store.snapshot() as snapshot:
            return any(version.state == "ready" for version in snapshot.versions() if version.view.name == view.name)

    def _horizon(self, view: View) -> int:
        version = self._serving(view)
        return version.base(VISITS.name).horizon if version else 0

    def _until(self, condition: Callable[[], bool], view: View) -> None:
        deadline = time.monotonic() + MOST_S
        while not condition():
            has_worked = self.batch.run_once()
            if self.batch.errors or not has_worked or time.monotonic() > deadline:
                reason = "; ".join(self.batch.errors.values()) or "it has no work"
                raise HeadraceError(f"the batch layer makes no progress with view '{view.name}': {reason}")


def history(tell: Tell) -> list[Figure]:
    """All figures of the batch layer, over one lake of 20 M events."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        tell(f"a lake of {SIZES[-1]} M events")
        layers = Layers(Path(folder), SIZES[-1])
        try:
            return [*_builds(layers, tell), *_memory(layers, tell), *_beats(layers, tell), *_answers(layers, tell)]
        finally:
            layers.close()


def _builds(layers: Layers, tell: Tell) -> list[Figure]:
    view = VIEWS["traffic"]
    tell("builds")
    _rebuild(layers, view, SIZES[0])  # code is compiled on the first one
    rounds = []
    for number in range(ROUNDS):
        rounds.append([_rebuild(layers, view, commits) for commits in SIZES])
        tell(f"round {number + 1}: " + ", ".join(f"{m} M in {s:.2f} s" for m, s in zip(SIZES, rounds[-1], strict=True)))
    rates = [SIZES[-1] * COMMIT_ROWS / took[-1] for took in rounds]
    comparisons = [
        (f"building {2 * few} M events against {few} M", [took[at + 1] / took[at] for took in rounds])
        for at, few in enumerate(SIZES[:-1])
    ]
    return [
        of_runs(f"build of {SIZES[-1]} M events from the lake", rates, "events/s", 900_000),
        *(_ratio(name, ratios, 2.2) for name, ratios in comparisons),
    ]


def _rebuild(layers: Layers, view: View, commits: int) -> float:
    layers.store.drop(view.name)
    return layers.build(view, commits)


def _memory(layers: Layers, tell: Tell) -> list[Figure]:
    tell("a build of 1 M groups")
    with _measure_memory() as memory:
        took_s = layers.build(VIEWS["many_groups"], SIZES[0])
    return [
        Figure("build of 1 M groups", SIZES[0] * COMMIT_ROWS / took_s, "events/s", f"{SIZES[0]} M events, once"),
        Figure(
            "memory while 1 M groups are built, most", max(memory), "MB", f"{min(memory):,} MB before", 2_500, False
        ),
    ]


@contextmanager
def _measure_memory() -> Iterator[list[int]]:
    """Samples of the memory of this process and its child processes while the block runs."""
    samples = [memory_mb()]
    stopping = threading.Event()

    def measure() -> None:
        while not stopping.wait(MEMORY_EVERY_S):
            samples.append(memory_mb())

    thread = threading.Thread(target=measure, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stopping.set()
        thread.join()


def _beats(layers: Layers, tell: Tell) -> list[Figure]:
    """Beats of a commit each over a short and a long history, in turn, so that other load affects both."""
    tell("beats")
    short, long = (replace(VIEWS["by_visitor"], name=name) for name in ("short", "long"))
    few = SIZES[-1] - BEATS - 1
    layers.build(short, SIZES[0])
    layers.build(long, few)
    for view in (short, long):
        layers.beat(view)
    pairs = [(layers.beat(short), layers.beat(long)) for _ in range(BEATS)]
    for view in (short, long):
        layers.store.drop(view.name)
    return [
        of_runs("a beat of 1 M events, 10,000 keys", [b * 1000 for _, b in pairs], "ms"),
        _ratio(f"a beat over {few} M events against {SIZES[0]} M", [b / a for a, b in pairs], 1.3),
    ]


def _answers(layers: Layers, tell: Tell) -> list[Figure]:
    """Point answers over the history and over twice the history, in turn."""
    tell("point answers as history doubles")
    once, twice = (replace(VIEWS["by_visitor"], name=name) for name in ("once", "twice"))
    layers.build(once, SIZES[1])
    layers.build(twice, SIZES[2])
    for number in range(ANSWERS // 5):
        layers.answer_ms(once.name, number), layers.answer_ms(twice.name, number)
    pairs = [(layers.answer_ms(once.name, number), layers.answer_ms(twice.name, number)) for number in range(ANSWERS)]
    before, after = (percentile(times, 0.5) for times in zip(*pairs, strict=True))
    return [
        Figure(
            f"point answer over {SIZES[2]} M events against {SIZES[1]} M, {VISITORS:,} keys, p50",
            after / before,
            "x",
            f"{before:.2f} and {after:.2f} ms, {ANSWERS:,} each, in the process",
            1.2,
            False,
        )
    ]


def _ratio(name: str, ratios: list[float], bar: float) -> Figure:
    spread = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} pairs"
    return Figure(name, median(ratios), "x", spread, bar, higher_is_better=False)
