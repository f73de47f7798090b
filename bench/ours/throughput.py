"""From a file to served answers: with more views, with late events, with sliding windows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from bench.ours.events import ONE_VIEW, STREAM, USUAL, Shape, views, write_file
from bench.ours.figures import Figure, of_runs
from bench.ours.progress import Progress
from bench.ours.turn import Files, Timing, take_turn
from bench.sizes import Sizes

LEAST_SHARE = {5: 75, 20: 40, 100: 12}  # % of the rate with one view
LATE = Shape(late=0.05)
MOVES = """CREATE STREAM moves (
  visitor STRING NOT NULL, page STRING, status INT, bytes BIGINT, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
"""
SLIDING = """CREATE MATERIALIZED VIEW sliding AS
SELECT page, count(*) AS hits, sum(bytes) AS bytes, max(bytes) AS largest
FROM moves GROUP BY page, window(at, '1 hour', '1 minute');
"""


SKETCHES = """CREATE MATERIALIZED VIEW sketched AS
SELECT page, count(*) AS hits, sum(bytes) AS bytes, max(bytes) AS largest, approx_count_distinct(visitor) AS visitors,
       approx_percentile(bytes, array(0.5, 0.95, 0.99)) AS sizes, approx_top_k(visitor, 10) AS top
FROM moves GROUP BY page, window(at, '1 minute');
"""


@contextmanager
def make_files(sizes: Sizes, shape: Shape = USUAL) -> Iterator[tuple[Files, Files]]:
    """A file to warm up with, of the usual shape, and one to measure."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        warm, file = Path(name) / "warm.ndjson", Path(name) / "visits.ndjson"
        write_file(warm, sizes.warm_events, seed=9)
        write_file(file, sizes.events, shape=shape)
        yield Files((warm,), sizes.warm_events), Files((file,), sizes.events)


def throughput(sizes: Sizes, progress: Progress) -> list[Figure]:
    """The rate with each number of views; a server of its own each time, in turns."""
    timings: dict[int, list[Timing]] = {count: [] for count in sizes.views}
    with make_files(sizes) as (warm, file):
        for number in range(sizes.rounds):
            for count in sizes.views:
                if number and count == sizes.views[-1] and count > 1:
                    continue  # a hundred views take minutes
                turn = (f"round {number + 1}, {count} views", STREAM + views(count), [warm], [file])
                timings[count] += measure_turn(progress, *turn)
    rates = {count: median(timing.rate for timing in timings[count]) for count in sizes.views}
    figures = []
    for count in sizes.views:
        name = f"file to served answer, {count} view{'s' if count > 1 else ''}"
        figures.append(of_runs(name, [timing.rate for timing in timings[count]], "events/s"))
        figures.append(cpu_figure(name, timings[count]))
    base = sizes.views[0]
    for count in sizes.views[1:]:
        share = 100 * rates[count] / rates[base]
        spread = f"{rates[count]:,.0f} and {rates[base]:,.0f} events/s"
        figures.append(Figure(f"{count} views against {base}", share, "%", spread, LEAST_SHARE.get(count)))
    memory = max(timing.memory_mb for timing in timings[base])
    figures.append(Figure("memory of the server, 1 view", memory, "MB", "the most of all rounds", 3000, False))
    return figures


def many_views(sizes: Sizes, progress: Progress) -> list[Figure]:
    """The rate and the memory of a server with very many views on one stream."""
    few = replace(sizes, events=sizes.many_events, warm_events=max(1, sizes.many_events // 10))
    name = f"{sizes.many_views:,} views on one stream"
    with make_files(few) as (warm, file):
        timings = measure_turn(progress, name, STREAM + views(sizes.many_views), [warm], [file])
    return [
        of_runs(f"{name}, file to served answer", [timing.rate for timing in timings], "events/s"),
        cpu_figure(name, timings),
        Figure(f"{name}, memory of the server", timings[0].memory_mb, "MB", "with Java and workers", None, False),
    ]


def late(sizes: Sizes, progress: Progress) -> list[Figure]:
    """Events of which 5 % are 5 to 30 minutes late, against none: the same server takes both files by turns."""
    with make_files(sizes) as (warm, file):
        path = file.paths[0].with_name("late.ndjson")
        write_file(path, sizes.events, shape=LATE)
        turn = ("late events", STREAM + ONE_VIEW, [warm], [file, replace(file, paths=(path,))] * sizes.rounds)
        timings = measure_turn(progress, *turn)
    return [
        *_against("file to served answer, 5 % late events", "none late", timings[1::2], timings[::2], 90),
        # A server whose rows differ from DuckDB's over the same files raises an error before.
        Figure("late events that were lost", 0, "events", f"{len(timings) // 2} files compared with DuckDB", 0, False),
    ]


def sliding(sizes: Sizes, progress: Progress) -> list[Figure]:
    """Windows of an hour every minute, against windows of a minute."""
    name = "file to served answer, windows of 1 hour every minute"
    return _beside(sizes, progress, "sliding windows", SLIDING, "sliding", name, "windows of 1 minute", 95)


def sketches(sizes: Sizes, progress: Progress) -> list[Figure]:
    """Distinct count, percentiles and top 10 beside count, sum and max, against these alone."""
    name = "file to served answer, with distinct count, percentiles and top 10"
    return _beside(sizes, progress, "sketches", SKETCHES, "sketched", name, "count, sum and max", 40)


def _beside(
    sizes: Sizes, progress: Progress, turn: str, definition: str, view: str, name: str, base: str, least: float
) -> list[Figure]:
    """A view against the usual one: two streams of one server, by turns."""
    with make_files(sizes) as (warm, file):
        warm_moves, moves = (replace(each, stream="moves", view=view) for each in (warm, file))
        definitions, files = STREAM + ONE_VIEW + MOVES + definition, [file, moves] * sizes.rounds
        timings = measure_turn(progress, turn, definitions, [warm, warm_moves], files)
    return _against(name, base, timings[1::2], timings[::2], least)


def measure_turn(
    progress: Progress, name: str, definitions: str, warm: Sequence[Files], files: Sequence[Files]
) -> list[Timing]:
    """Take a turn, or what was kept of it."""

    def measure() -> list[dict[str, Any]]:
        return [timing.as_dict() for timing in take_turn(definitions, warm, files)]

    timings = [Timing(**values) for values in progress.keep(name, measure)]
    rates = ", ".join(f"{timing.rate:,.0f}" for timing in timings)
    progress.tell(f"{name}: {rates} events/s")
    return timings


def _against(name: str, base: str, timings: list[Timing], others: list[Timing], least: float) -> list[Figure]:
    """A rate, and its share of another one; the share is the median of pairs, so that other load affects both."""
    shares = [100 * timing.rate / other.rate for timing, other in zip(timings, others, strict=True)]
    spread = f"{min(shares):.0f} to {max(shares):.0f} % in {len(shares)} pairs"
    return [
        of_runs(name, [timing.rate for timing in timings], "events/s"),
        Figure(f"{name}, against {base}", median(shares), "%", spread, least),
    ]


def cpu_figure(name: str, timings: Sequence[Timing]) -> Figure:
    """CPU time of server, Spark, workers and client."""
    costs = [timing.cpu_per_million for timing in timings]
    return Figure(
        f"CPU, {name}", median(costs), "s per M events", f"{min(costs):.2f} to {max(costs):.2f}", higher_is_better=False
    )
