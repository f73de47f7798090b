"""What windows cost when they are asked for: overlapping ones, long ones, distinct counts, many keys at once.

Over a store in this process: partials are computed as the fused lane does, then questions are timed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from bench.ours.figures import Figure, of_percentile
from bench.ours.measure import Tell
from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint
from headrace.maintain.lift import Lifting, lift_view, parts_of
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.store.open_store import open_temporary
from headrace.store.store_contract import Step, Store
from headrace.transport.position import Position

START_US = 1_767_225_600_000_000  # 1 January 2026
MINUTE_US = 60_000_000
DAY = 1_440  # minutes
EVENTS_AT_ONCE = 1_000_000
RUNS = 5
STREAM = """CREATE STREAM visits (page STRING, visitor STRING, bytes BIGINT, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
"""
COUNTS = "count(*) AS hits, sum(bytes) AS bytes, max(bytes) AS largest"
DISTINCT = "approx_count_distinct(visitor) AS visitors"


@dataclass(frozen=True)
class Grid:
    """Events of some keys in each minute."""

    keys: int
    minutes: int
    per_cell: int = 2

    def pieces(self) -> Iterator[pa.Table]:
        """The events, about a million at a time."""
        import numpy as np  # takes 0.1 s to import: not for commands that measure nothing

        minutes_at_once = max(1, EVENTS_AT_ONCE // (self.keys * self.per_cell))
        for first in range(0, self.minutes, minutes_at_once):
            minutes = np.arange(first, min(first + minutes_at_once, self.minutes))
            count = len(minutes) * self.keys * self.per_cell
            keys = np.tile(np.repeat(np.arange(self.keys), self.per_cell), len(minutes))
            times = START_US + np.repeat(minutes, self.keys * self.per_cell) * MINUTE_US
            numbers = np.arange(count)
            yield pa.table(
                {
                    "page": pa.array(keys).cast(pa.string()),
                    "visitor": pa.array((numbers * 7_919 + first) % 50_000).cast(pa.string()),
                    "bytes": pa.array(numbers % 1_000),
                    "at": pa.array(times).cast(pa.timestamp("us", "UTC")),
                }
            )


@contextmanager
def filled(columns: str, grid: Grid) -> Iterator[Store]:
    """A store with a view of these columns by page and minute, all of it in the speed layer."""
    catalog = parse(
        f"{STREAM}CREATE MATERIALIZED VIEW traffic AS SELECT page, {columns} FROM visits "
        "GROUP BY page, window(at, '1 minute');"
    )
    stream, view = catalog.streams["visits"], catalog.views["traffic"]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        store = open_temporary(folder)
        try:
            version = store.register(view, fingerprint(view), catalog.patience_ms(view))
            lifting = Lifting((lift_view(stream, view, version.number, 0, None),), str(folder))
            newest_us = START_US + grid.minutes * MINUTE_US
            for number, events in enumerate(grid.pieces()):
                (part,) = parts_of([lifting.run(events)])
                partials = part.read()
                assert partials is not None, part.error
                step = Step("visits", number, number + 1, Position.at(number + 1), newest_us, 0)
                store.apply(step, {version.id: [partials]})
            yield store
        finally:
            store.close()


def window_costs(tell: Tell, *, keys: int = 1_000, days: int = 30) -> list[Figure]:
    """The figures; a smaller number of keys and days only shows that they can be measured."""
    tell("windows that overlap")
    with filled(COUNTS, Grid(max(1, keys // 5), DAY)) as store:
        overlap = [_overlap(store, name, **options) for name, options in OVERLAPS.items()]
    tell("distinct counts of windows that overlap")
    with filled(DISTINCT, Grid(keys, DAY)) as store:
        pages = _times(store, window="1h", every="1m", limit=10_000)
        merged = _times(store, window="1h", every="1m", by=(), limit=10_000)
    tell("one number of many panes")
    with filled(COUNTS, Grid(3, days * DAY)) as store:
        total = _times(store, key={"page": "1"}, window="all")
    tell("many keys at once")
    with filled(COUNTS, Grid(500 * keys, 1, 1)) as store:
        lookups = [_lookup_ms(store, run, keys, 500 * keys) for run in range(6 * RUNS)]
    day = f"sliding 1 h distinct count over a day of 1-minute panes x {keys:,} keys"
    return [
        *overlap,
        _figure(f"{day}, 10,000 rows", pages, 1_000),
        _figure(f"{day}, all keys merged", merged, 1_000),
        _figure(f"{days} days of 1-minute panes of one key as one number", total, 50),
        of_percentile(f"lookup of {keys:,} keys of {500 * keys:,}", lookups, 0.5, "ms", 50),
    ]


OVERLAPS: dict[str, dict[str, Any]] = {
    "one key": {"key": {"page": "1"}, "limit": 10_000},
    "all keys merged": {"by": (), "limit": 10_000},
    "10,000 rows": {"limit": 10_000},
}


def _overlap(store: Store, name: str, **options: Any) -> Figure:
    """1 h windows every minute against 1.5 x those every hour, and the rows of the minutes."""
    sliding = median(_times(store, window="1h", every="1m", **options))
    hourly = median(_times(store, window="1h", every="1h", **options))
    minutes = median(_times(store, window="1m", **options))
    spread = f"{sliding:.1f} ms; every hour {hourly:.1f} ms, 1-minute rows {minutes:.1f} ms"
    title = f"1 h windows every minute over a day, {name}, against 1.5 x every hour + 1-minute rows"
    return Figure(title, 100 * sliding / (1.5 * hourly + minutes), "%", spread, 100, higher_is_better=False)


def _times(store: Store, **options: Any) -> list[float]:
    question = Question.of("traffic", **options)
    return [_ms(lambda: answer(store, question, up_to_date, datetime.now(UTC))) for _ in range(RUNS)]


def _lookup_ms(store: Store, run: int, count: int, keys: int) -> float:
    keys_of_run = [{"page": str((run * 7_907 + at * 499) % keys)} for at in range(count)]

    def look_up() -> None:
        question = Question.lookup_of("traffic", keys_of_run, window="all")
        answer(store, question, up_to_date, datetime.now(UTC))

    return _ms(look_up)


def _ms(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return (time.monotonic() - start) * 1_000


def _figure(name: str, times: list[float], bar: float) -> Figure:
    spread = f"{min(times):,.1f} to {max(times):,.1f} in {len(times)} runs"
    return Figure(name, median(times), "ms", spread, bar, higher_is_better=False)
