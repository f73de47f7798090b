"""A stream with UNIQUE: its rate against the same stream without, with millions of ids, and after a restart."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np

from bench.ours.events import BASE_S, BATCH
from bench.ours.figures import Figure, of_runs
from bench.ours.measure import Tell, start_server
from headrace.api.connect import Connection, connect
from headrace.errors import HeadraceError
from headrace.tools.demo.shop_server import make_workspace

MOST_S = 900.0
REPEATS = 0.05  # the share of events that are repeats, of the file that is sent to many ids
FIELDS = "id STRING NOT NULL, page STRING, status INT, bytes BIGINT, at TIMESTAMP NOT NULL"
TIME = "WATERMARK FOR at AS at - INTERVAL 1 MINUTE"
VIEW = "SELECT page, count(*) AS hits, sum(bytes) AS bytes FROM {} GROUP BY page, window(at, '1 minute')"
DEFINITIONS = f"""CREATE STREAM orders ({FIELDS}, {TIME});
CREATE STREAM payments ({FIELDS}, {TIME}, UNIQUE (id) WITHIN INTERVAL 1 DAY);
CREATE MATERIALIZED VIEW of_orders AS {VIEW.format("orders")};
CREATE MATERIALIZED VIEW of_payments AS {VIEW.format("payments")};
"""


def unique_ids(tell: Tell, events: int, files: int, rounds: int) -> list[Figure]:
    """`files` files of so many events with ids of their own; the first ones are sent to both streams, by turns."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name, _workspace() as folder:
        paths = [_write(Path(name) / f"{number}.ndjson", number * events, events) for number in range(files)]
        with_repeats = _write(Path(name) / "repeats.ndjson", files * events, events, REPEATS)
        with start_server(folder) as server, connect(str(folder)) as connection:
            warm = _write(Path(name) / "warm.ndjson", (files + 1) * events, events // 4)
            pairs = [[_rate(connection, stream, warm, events // 4) for stream in ("orders", "payments")]]
            for number, path in enumerate(paths):
                streams = ("orders", "payments") if number < rounds else ("payments",)
                pairs.append([_rate(connection, stream, path, events) for stream in streams])
                tell(f"file {number + 1} of {files}: {', '.join(f'{rate:,.0f}' for rate in pairs[-1])} events/s")
            last = _rate(connection, "payments", with_repeats, events)
            ids = (files + 1) * events + events // 4 - round(events * REPEATS)
            _check(connection, ids)
            memory = connection.verbs.status().memory_mb or 0
            tell(f"{ids:,} ids: {last:,.0f} events/s, {memory:,} MB; restart")
        with start_server(folder) as server, connect(str(folder)) as connection:
            server.check()
            one = _write(Path(name) / "one.ndjson", 0, 1)
            plain_s, unique_s = (_seconds(connection, stream, one) for stream in ("orders", "payments"))
            _check(connection, ids)
    shares = [100 * pair[1] / pair[0] for pair in pairs[1 : rounds + 1]]
    against = f"{min(shares):.0f} to {max(shares):.0f} % in {len(shares)} pairs"
    rates = [pair[1] for pair in pairs[1 : rounds + 1]]
    return [
        of_runs("file to served answer, once per id", rates, "events/s", 100_000),
        Figure("once per id, against the stream without UNIQUE", median(shares), "%", against, 40),
        Figure(f"once per id with {ids / 1e6:.0f} M ids, 5 % repeats", last, "events/s", "one file", 100_000),
        Figure(f"memory of the server with {ids / 1e6:.0f} M ids", memory, "MB", "with Java and workers", 4000, False),
        Figure(
            f"first event after a start with {ids / 1e6:.0f} M ids, sent to answered",
            unique_s, "s", f"{plain_s:.1f} s without UNIQUE", 30, False,
        ),
    ]  # fmt: skip


@contextmanager
def _workspace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        make_workspace(Path(folder), DEFINITIONS)
        yield Path(folder)


def _seconds(connection: Connection, stream: str, path: Path) -> float:
    """The time until every view has a file."""
    start = time.monotonic()
    reply = connection.send_files(stream, [path], again=True)
    if not connection.wait(reply.token, MOST_S).complete:
        raise HeadraceError(f"the views did not have {path.name} within {MOST_S:.0f} s")
    return time.monotonic() - start


def _rate(connection: Connection, stream: str, path: Path, events: int) -> float:
    return events / _seconds(connection, stream, path)


def _check(connection: Connection, expected: int) -> None:
    """Each id counts once."""
    answer = connection.ask("of_payments", by=(), window="1d")
    hits = sum(int(row["hits"]) for row in answer.rows())
    if hits != expected:
        raise HeadraceError(f"the view has {hits:,} events", expected=f"{expected:,}")


def _write(path: Path, first: int, count: int, repeats: float = 0.0) -> Path:
    """Events with the ids of these numbers, in an order without a pattern; the last ones repeat ids from 0 on."""
    fresh = count - round(count * repeats)
    numbers = np.append(np.arange(first, first + fresh), np.arange(count - fresh)).astype(np.uint64)
    np.random.default_rng(first).shuffle(numbers)
    with path.open("w") as out:
        for start in range(0, count, BATCH):
            out.write("\n".join(_lines(numbers[start : start + BATCH])) + "\n")
    return path


def _lines(numbers: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> Sequence[str]:
    # An odd factor maps different numbers to different ids. The time of an event depends on its number only.
    ids = (numbers * np.uint64(0x9E3779B97F4A7C15)).tolist()
    seconds = (numbers % np.uint64(3_600_000)).astype(np.int64)
    times = np.datetime_as_string((BASE_S * 1000 + seconds).astype("datetime64[ms]"), unit="ms").tolist()
    return [
        f'{{"id":"{id_:032x}","page":"/p/{id_ % 500}","status":200,"bytes":{id_ % 9973},"at":"{at}Z"}}'
        for id_, at in zip(ids, times, strict=True)
    ]
