"""How cost grows: with events, keys, commits and the width of events; with views by the throughput part."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.ours.events import ONE_VIEW, STREAM, USUAL, Shape, write_file
from bench.ours.lake import ROUND, ROWS, add_commit, open_seconds
from bench.ours.lake import STREAM as LAKE_STREAM
from bench.ours.progress import Progress
from bench.ours.throughput import measure_turn
from bench.ours.turn import Files, Timing
from bench.record import Part, Results
from bench.sizes import FullSizes
from headrace.lake.delta_table import LakeTable
from headrace.lake.upkeep import Upkeep
from headrace.transport.journal.journal import Journal

WIDE_STREAM = STREAM.replace("bytes BIGINT,", "bytes BIGINT, note STRING,")
LAST = 50  # the commits whose median is taken


@dataclass(frozen=True)
class Curve:
    """A cost at several sizes."""

    title: str  # what was varied
    x: str
    y: str
    sizes: list[float]
    costs: list[float]
    cpu: list[float]  # CPU seconds per million events; empty where it was not measured

    @property
    def exponent(self) -> float:
        """The cost grows with this power of the size, by least squares on logarithms."""
        return float(np.polyfit(np.log(self.sizes), np.log(self.costs), 1)[0])

    @property
    def sentence(self) -> str:
        """How the cost grows, computed from the data."""
        more, cost = self.sizes[-1] / self.sizes[0], self.costs[-1] / self.costs[0]
        return (
            f"With {more:,.3g} times as many {self.x}, {self.y} change by a factor of {cost:,.2f} "
            f"(exponent {self.exponent:.2f})."
        )


def events_growth(sizes: FullSizes, progress: Progress) -> Part:
    """One server takes files of each size by turns."""
    shapes = [(count, USUAL) for count in sizes.growth_events]
    timings = _sizes_in_one_server(sizes, progress, "events", STREAM, shapes)
    return _part("events", "events", "seconds", sizes.growth_events, [_seconds(each) for each in timings], timings)


def width_growth(sizes: FullSizes, progress: Progress) -> Part:
    """One server takes files of the same number of events, of each width, by turns."""
    count = sizes.growth_events[0]
    shapes = [(count, Shape(bytes=width if width > 100 else 0)) for width in sizes.growth_bytes]
    timings = _sizes_in_one_server(sizes, progress, "width", WIDE_STREAM, shapes)
    costs = [_seconds(each) / count * 1e6 for each in timings]
    return _part("width of events", "bytes of an event", "seconds per M events", sizes.growth_bytes, costs, timings)


def keys_growth(sizes: FullSizes, progress: Progress) -> Part:
    """A server for each number of keys; all times fall into one hour of 1-minute panes."""
    timings = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        for keys in sizes.growth_keys:
            warm, path = Path(name) / "warm.ndjson", Path(name) / f"{keys}.ndjson"
            write_file(warm, sizes.ours.warm_events, seed=9, shape=Shape(pages=keys))
            write_file(path, sizes.ours.events, shape=Shape(pages=keys))
            files = [Files((warm,), sizes.ours.warm_events)], [Files((path,), sizes.ours.events)]
            timings.append(measure_turn(progress, f"{keys} keys", STREAM + ONE_VIEW, *files))
            path.unlink()
    costs = [_seconds(each) / sizes.ours.events * 1e6 for each in timings]
    return _part("keys", "keys", "seconds per M events", sizes.growth_keys, costs, timings)


def commits_growth(sizes: FullSizes, progress: Progress) -> Part:
    """A lake of small commits with upkeep in between: the time of a commit and of opening it, at several lengths."""
    marks = sizes.growth_commits
    points = progress.keep("commits", lambda: _commit_times(marks, progress))
    curves = [
        Curve("commits", "commits", "milliseconds of a commit", list(marks), [p["commit_ms"] for p in points], []),
        Curve("commits, opening", "commits", "seconds to open", list(marks), [p["open_s"] for p in points], []),
    ]
    return Part([], {"curves": [vars(curve) for curve in curves]})


def curves(results: Results) -> list[Curve]:
    """All curves of the results; that of views from the figures of the throughput part."""
    content = [curve for part in ("events", "keys", "commits", "width") for curve in _curves(results, part)]
    rates = {
        int(figure.name.split(", ")[1].split()[0]): figure.value
        for figure in results.figures("throughput")
        if figure.name.startswith("file to served answer, ")
    }
    if len(rates) > 1:
        costs = [1e6 / rate for rate in rates.values()]
        views = Curve("views", "views", "seconds per M events", [float(count) for count in rates], costs, [])
        content.insert(2, views)
    return content


def _curves(results: Results, part: str) -> list[Curve]:
    return [Curve(**content) for content in results.data(f"growth-{part}").get("curves", ())]


def _sizes_in_one_server(
    sizes: FullSizes, progress: Progress, name: str, stream: str, shapes: Sequence[tuple[int, Shape]]
) -> list[list[Timing]]:
    """The timings of each shape."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        warm = Path(folder) / "warm.ndjson"
        write_file(warm, sizes.ours.warm_events, seed=9)
        files = []
        for number, (count, shape) in enumerate(shapes):
            path = Path(folder) / f"{number}.ndjson"
            write_file(path, count, shape=shape)
            files.append(Files((path,), count))
        turn = [Files((warm,), sizes.ours.warm_events)], files * sizes.growth_rounds
        timings = measure_turn(progress, name, stream + ONE_VIEW, *turn)
    return [timings[number :: len(shapes)] for number in range(len(shapes))]


def _seconds(timings: Sequence[Timing]) -> float:
    return median(timing.seconds for timing in timings)


def _part(
    title: str, x: str, y: str, sizes: Sequence[float], costs: list[float], timings: Sequence[Sequence[Timing]]
) -> Part:
    cpu = [median(timing.cpu_per_million for timing in each) for each in timings]
    return Part([], {"curves": [vars(Curve(title, x, y, list(sizes), costs, cpu))]})


def _commit_times(marks: Sequence[int], progress: Progress) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        table = LakeTable(Path(name) / "lake", LAKE_STREAM, fence=1)
        journal = Journal(Path(name) / "journal", fence=1)
        upkeep = Upkeep(table, journal, grace_s=0)
        points, times_ms = [], []
        for number in range(1, marks[-1] + 1):
            start = time.perf_counter()
            add_commit(table, LAKE_STREAM, ROWS)
            times_ms.append((time.perf_counter() - start) * 1000)
            if number % ROUND == 0:
                upkeep.run()
            if number in marks:
                open_s = median(open_seconds(Path(name) / "lake") for _ in range(5))
                points.append({"commit_ms": median(times_ms[-LAST:]), "open_s": open_s})
                progress.tell(f"{number:,} commits: {points[-1]['commit_ms']:.1f} ms each, opened in {open_s:.3f} s")
        journal.close()
    return points
