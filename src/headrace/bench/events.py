"""Visits for the benchmark, seeded: 500 pages over an hour of 1-minute panes, some 30,000 groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

PAGES = 500
BASE_S = 1_767_225_600  # 2026-01-01T00:00:00Z
SPAN_S = 3600
BATCH = 100_000

STREAM = """CREATE STREAM visits (
  visitor STRING NOT NULL, page STRING, status INT, bytes BIGINT, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
"""
ONE_VIEW = """CREATE MATERIALIZED VIEW traffic AS
SELECT page, count(*) AS hits, sum(bytes) AS bytes, max(bytes) AS largest
FROM visits GROUP BY page, window(at, '1 minute');
"""
FOUR_MORE = """CREATE MATERIALIZED VIEW by_status AS
SELECT status, count(*) AS hits, avg(bytes) AS bytes FROM visits GROUP BY status, window(at, '10 seconds');
CREATE MATERIALIZED VIEW errors AS
SELECT page, count(*) AS hits FROM visits WHERE status >= 500 GROUP BY page, window(at, '1 minute');
CREATE MATERIALIZED VIEW totals AS
SELECT count(*) AS hits, sum(bytes) AS bytes, min(bytes) AS smallest FROM visits GROUP BY window(at, '1 second');
CREATE MATERIALIZED VIEW visitors AS
SELECT approx_count_distinct(visitor) AS visitors FROM visits GROUP BY window(at, '1 minute');
"""


def lines(count: int, seed: int) -> Iterator[list[str]]:
    """Batches of JSON lines, mostly in order, each some seconds out of it."""
    rng = np.random.default_rng(seed)
    for start in range(0, count, BATCH):
        size = min(BATCH, count - start)
        seconds = BASE_S + (start + np.arange(size)) * SPAN_S / count - rng.exponential(3.0, size)
        times = np.datetime_as_string((seconds * 1000).astype("int64").astype("datetime64[ms]"), unit="ms")
        columns = zip(
            rng.integers(0, 50_000, size).tolist(),
            rng.integers(0, PAGES, size).tolist(),
            rng.choice([200, 304, 404, 500], size, p=[0.9, 0.05, 0.04, 0.01]).tolist(),
            rng.integers(100, 100_000, size).tolist(),
            times.tolist(),
            strict=True,
        )
        yield [
            f'{{"visitor":"u{v}","page":"/p/{p}","status":{s},"bytes":{b},"at":"{t}Z"}}' for v, p, s, b, t in columns
        ]


def write_file(path: Path, count: int, seed: int = 1) -> None:
    """A file of NDJSON."""
    with path.open("w") as out:
        for batch in lines(count, seed):
            out.write("\n".join(batch) + "\n")


def arrays(count: int, per_array: int, seed: int = 2) -> list[bytes]:
    """The bodies of HTTP requests."""
    flat = [line for batch in lines(count, seed) for line in batch]
    return [("[" + ",".join(flat[i : i + per_array]) + "]").encode() for i in range(0, count, per_array)]
