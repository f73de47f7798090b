"""What a chain of derived streams costs: a view over ten row-wise steps against one over one step, in both lanes.

The one step filters, and projects a lower-case text, a sum and a product. The chain has nine more after it: five
filters by an OR, and four projections with two sums each. None of them is idle, and nearly all events pass all of them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.ours.figures import Figure
from headrace.define.catalog import Catalog, parse
from headrace.maintain.lift import Lifting, close_connection, lift_view, parts_of

Tell = Callable[[str], None]
MOST_RATIO = 1.3
MORE_RUNS = 3  # for each that is asked for: a run takes less than a second, so that little disturbs it much
START_US = 1_772_366_400_000_000  # 2026-03-01
STREAM = """CREATE STREAM visits (page STRING, status INT, bytes BIGINT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
"""
VIEW = """CREATE MATERIALIZED VIEW traffic AS SELECT page, count(*) AS hits, sum(bytes) AS bytes, max(status) AS worst
FROM {} GROUP BY page, window(at, '1 minute');"""
ONE = "CREATE STREAM s0 AS SELECT lower(page) AS page, status + 9 AS status, bytes * 2 AS bytes, at FROM visits WHERE status > 0;"  # noqa: E501


def chain(steps: int) -> Catalog:
    """A view over a stream that is derived in so many steps: the filters and projections of each differ."""
    streams, source = [ONE], "s0"
    for number in range(1, steps):
        if number % 2:
            query = f"SELECT * FROM {source} WHERE bytes > {number} OR status < {number}"
        else:
            query = f"SELECT page, status + {number} AS status, bytes + {number} AS bytes, at FROM {source}"
        streams.append(f"CREATE STREAM s{number} AS {query};")
        source = f"s{number}"
    return parse(STREAM + "\n".join(streams) + VIEW.format(source))


def events_of(count: int) -> pa.Table:
    """Events of 1,000 pages in an hour."""
    numbers = np.arange(count, dtype=np.int64)
    return pa.table(
        {
            "page": pa.array([f"/Page/{number}" for number in range(1_000)]).take(pa.array(numbers % 1_000)),
            "status": pa.array((numbers * 7_919) % 600).cast(pa.int32()),
            "bytes": pa.array(numbers % 10_000),
            "at": pa.array(START_US + (numbers * 3_600_000_000) // count).cast(pa.timestamp("us", "UTC")),
        }
    )


def chain_costs(tell: Tell, events: int, runs: int) -> list[Figure]:
    """The figures: the time of ten steps, as a multiple of that of one."""
    table, catalogs, runs = (
        _as_in_the_log(events_of(events)),
        {steps: chain(steps) for steps in (1, 10)},
        runs * MORE_RUNS,
    )
    tell(f"a chain of ten steps in the fused lane, {events:,} events")
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        fused = _ratio("fused lane", catalogs, runs, lambda catalog: _lift(catalog, table, folder))
        close_connection()
        tell(f"a chain of ten steps by Spark, {events:,} events")
        with _spark_job(table, folder) as job:
            spark = _ratio("Spark", catalogs, runs, job)
    return [fused, spark]


def _as_in_the_log(events: pa.Table) -> pa.Table:
    zeros = pa.array(np.zeros(len(events), dtype=np.int64))
    for name in ("_commit", "_arrived", "_newest"):
        events = events.append_column(name, zeros if name == "_commit" else zeros.cast(pa.timestamp("us", "UTC")))
    return events


def _ratio(lane: str, catalogs: dict[int, Catalog], runs: int, work: Callable[[Catalog], None]) -> Figure:
    """The two by turns, after one run each that is not counted."""
    times: dict[int, list[float]] = {steps: [] for steps in catalogs}
    for _ in range(runs + 1):
        for steps, catalog in catalogs.items():
            start = time.perf_counter()
            work(catalog)
            times[steps].append(time.perf_counter() - start)
    one, ten = (median(times[steps][1:]) for steps in (1, 10))
    spread = f"{ten * 1_000:,.0f} ms against {one * 1_000:,.0f} ms, medians of {runs} runs"
    return Figure(f"a chain of ten row-wise steps against one, {lane}", ten / one, "x", spread, MOST_RATIO, False)


def _lift(catalog: Catalog, events: pa.Table, folder: Path) -> None:
    view = catalog.views["traffic"]
    lifting = Lifting((lift_view(catalog.streams["visits"], view, 1, 0, None),), str(folder))
    (part,) = parts_of([lifting.run(events.select(lifting.reads))])
    assert part.error is None, part.error
    Path(part.path).unlink()


@contextmanager
def _spark_job(events: pa.Table, folder: Path) -> Iterator[Callable[[Catalog], None]]:
    # They load PySpark, which the fused lane does not need.
    from headrace.maintain.partials_job import partials
    from headrace.spark.build import build_session

    pq.write_table(events, folder / "events.parquet")
    spark = build_session(folder / "spark")
    try:

        def compute(catalog: Catalog) -> None:
            frame = spark.read.parquet(str(folder / "events.parquet"))
            rows = partials(frame, catalog.streams["visits"], catalog.views["traffic"], 0)
            rows.write.format("noop").mode("overwrite").save()

        yield compute
    finally:
        spark.stop()
