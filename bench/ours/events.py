"""Visits for the benchmark, seeded: by default 500 pages over an hour of 1-minute panes, some 30,000 groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PAGES = 500
BASE_S = 1_767_225_600  # 2026-01-01T00:00:00Z
SPAN_S = 3600
BATCH = 100_000
LATE_S = (300, 1800)  # how late a late event is: far more than the patience of a minute

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
# Further views differ in a filter, as those of an application do.
FURTHER = (
    "SELECT page, count(*) AS hits, sum(bytes) AS bytes FROM visits WHERE bytes >= {n} * 500 "
    "GROUP BY page, window(at, '1 minute')",
    "SELECT status, count(*) AS hits, avg(bytes) AS bytes FROM visits WHERE bytes < {n} * 900 "
    "GROUP BY status, window(at, '10 seconds')",
    "SELECT page, sum(bytes) FILTER (WHERE status = 404) AS bytes, max(bytes) AS largest FROM visits "
    "WHERE bytes % {n} = 0 GROUP BY page, window(at, '5 minutes')",
    "SELECT count(*) AS hits, min(bytes) AS smallest FROM visits WHERE bytes % {n} < 3 GROUP BY window(at, '1 second')",
    "SELECT status, approx_count_distinct(visitor) AS visitors FROM visits WHERE bytes >= {n} * 300 "
    "GROUP BY status, window(at, '1 minute')",
)


@dataclass(frozen=True)
class Shape:
    """How generated visits differ from the usual ones."""

    pages: int = PAGES
    late: float = 0.0  # the share of events that come 5 to 30 minutes late
    bytes: int = 0  # events have at least this length, by a field `note`


USUAL = Shape()


def views(count: int) -> str:
    """The definitions of this many views of visits; the first is `traffic`."""
    first = [ONE_VIEW, *(f"CREATE {text}" for text in FOUR_MORE.split("CREATE ")[1:])]
    further = (
        f"CREATE MATERIALIZED VIEW view_{number} AS {FURTHER[number % len(FURTHER)].format(n=number)};\n"
        for number in range(len(first), count)
    )
    return "".join([*first[:count], *further])


def lines(count: int, seed: int, shape: Shape = USUAL) -> Iterator[list[str]]:
    """Batches of JSON lines, mostly in order, each some seconds out of it."""
    rng = np.random.default_rng(seed)
    for start in range(0, count, BATCH):
        size = min(BATCH, count - start)
        seconds = BASE_S + (start + np.arange(size)) * SPAN_S / count - rng.exponential(3.0, size)
        columns = [
            rng.integers(0, 50_000, size).tolist(),
            rng.integers(0, shape.pages, size).tolist(),
            rng.choice([200, 304, 404, 500], size, p=[0.9, 0.05, 0.04, 0.01]).tolist(),
            rng.integers(100, 100_000, size).tolist(),
        ]
        if shape.late:
            seconds -= np.where(rng.random(size) < shape.late, rng.uniform(*LATE_S, size), 0.0)
        times = np.datetime_as_string((seconds * 1000).astype("int64").astype("datetime64[ms]"), unit="ms")
        batch = [
            f'{{"visitor":"u{v}","page":"/p/{p}","status":{s},"bytes":{b},"at":"{t}Z"}}'
            for v, p, s, b, t in zip(*columns, times.tolist(), strict=True)
        ]
        yield [_widened(line, shape.bytes) for line in batch] if shape.bytes else batch


def _widened(line: str, size: int) -> str:
    """The same event with a note that fills it up to a length; the text is not the same in every event."""
    note = (line[1:-1].replace('"', "").replace(",", " ") + " ") * (size // len(line) + 2)
    return f'{line[:-1]},"note":"{note[: max(0, size - len(line) - 10)]}"}}'


def write_file(path: Path, count: int, seed: int = 1, shape: Shape = USUAL) -> None:
    """A file of NDJSON."""
    with path.open("w") as out:
        for batch in lines(count, seed, shape):
            out.write("\n".join(batch) + "\n")


def arrays(count: int, per_array: int, seed: int = 2) -> list[bytes]:
    """The bodies of HTTP requests."""
    flat = [line for batch in lines(count, seed) for line in batch]
    return [("[" + ",".join(flat[i : i + per_array]) + "]").encode() for i in range(0, count, per_array)]
