"""A lake of many small commits, written by the lake layer: the time to commit, open and scan it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import duckdb
import numpy as np
import pyarrow as pa

from bench.ours.figures import Figure, of_percentile
from headrace.define.catalog import parse
from headrace.define.model import Stream
from headrace.lake.delta_table import LakeTable
from headrace.lake.parquet_file import LakeFileWriter
from headrace.lake.table_schema import DEAD, pin_column, table_schema
from headrace.lake.upkeep import Upkeep
from headrace.parse.record_columns import utc_us
from headrace.transport.journal.journal import Journal
from headrace.transport.position import Position

Tell = Callable[[str], None]

COMMITS = 10_000
ROWS = 100  # of a commit
ROUND = 43  # commits between two rounds of upkeep: 30 s of one commit each 0.7 s
SCANS = 7
(STREAM,) = parse("CREATE STREAM visits (visitor STRING, bytes BIGINT, at TIMESTAMP)").streams.values()


def event_rows(stream: Stream, commit: int, first: int, count: int) -> pa.Table:
    """Rows of one commit as the append writes them; each has its number as position, and in each column."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    times = pa.array(numbers * 1_000_000).cast(utc_us())
    constant = pa.repeat(pa.scalar(first, pa.int64()).cast(utc_us()), count)
    columns: dict[str, pa.Array] = {
        "_commit": pa.repeat(commit, count),
        "_committed_at": constant,
        "_arrived": times,
        "_newest": constant,
        "_position": pa.array(numbers),
        "_reason": pa.nulls(count, pa.string()),
        "_value": pa.array([b'{"visitor":"v%d","bytes":%d}' % (n % 997, n) for n in numbers.tolist()]),
    }
    columns["_tables"] = pin_column({}, count)
    for field in table_schema(stream):
        if field.name not in columns and field.name != DEAD:
            columns[field.name] = times if field.type == utc_us() else pa.array(numbers).cast(field.type)
    return pa.table(columns)


def add_commit(table: LakeTable, stream: Stream, count: int, *, dead: int = 0) -> None:
    """One commit of `count` events and `dead` dead letters."""
    with table.turn:
        at = table.state
        files = []
        start = at.position.offset()
        for first, rows, is_dead in ((start, count, False), (start + count, dead, True)):
            writer = LakeFileWriter(table.storage, at.next_commit, dead=is_dead)
            writer.write(event_rows(stream, at.next_commit, first, rows))
            files.append(writer.close())
        table.commit(at, Position.at(start + count + dead), start, [file for file in files if file])


def many_commits(commits: int, tell: Tell) -> list[Figure]:
    """Small commits with upkeep in between as in the background, against one commit of all."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        tell(f"a lake of {commits:,} commits of {ROWS} events")
        table = LakeTable(folder / "many", STREAM, fence=1)
        journal = Journal(folder / "journal", fence=1)
        upkeep = Upkeep(table, journal, grace_s=0)
        times_ms, rounds_s = [], []
        for number in range(commits):
            start = time.perf_counter()
            add_commit(table, STREAM, ROWS)
            times_ms.append((time.perf_counter() - start) * 1000)
            if number % ROUND == ROUND - 1:
                start = time.perf_counter()
                upkeep.run()
                rounds_s.append(time.perf_counter() - start)
        tell("opened, scanned, and compared with one written at once")
        once = LakeTable(folder / "once", STREAM, fence=1)
        add_commit(once, STREAM, commits * ROWS)
        open_times_s = [open_seconds(folder / "many") for _ in range(SCANS)]
        ratio = scan_ratio(table, once)
        journal.close()
        files = len(table.files(0, commits))
    return [
        of_percentile(f"lake commit over {commits:,} commits, its file included", times_ms, 0.5, "ms", 20),
        of_percentile(f"lake commit over {commits:,} commits, its file included", times_ms, 0.99, "ms", None),
        Figure(
            f"opening a lake of {commits:,} commits",
            median(open_times_s),
            "s",
            f"{min(open_times_s):.3f} to {max(open_times_s):.3f} in {len(open_times_s)}; {files} files",
            0.5,
            False,
        ),
        Figure(
            f"scanning a lake of {commits:,} commits against one of 1",
            ratio,
            "x",
            f"median of {SCANS} pairs",
            1.3,
            False,
        ),
        Figure("a round of upkeep, mean", sum(rounds_s) / len(rounds_s), "s", f"most {max(rounds_s):.2f}"),
    ]


def scan_ratio(many: LakeTable, once: LakeTable) -> float:
    """How much longer a scan of one table takes than of the other; in pairs, so that other load affects both."""
    pairs = [(scan_s(many), scan_s(once)) for _ in range(SCANS)]
    return median(a / b for a, b in pairs)


def scan_s(table: LakeTable) -> float:
    """The time to read some columns of all events."""
    files = [table.storage.locate(file.path) for file in table.files(0, table.state.next_commit)]
    query = 'SELECT count(*), sum(bytes), count(DISTINCT visitor), max("at") FROM read_parquet($files)'
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        start = time.perf_counter()
        connection.execute(query, {"files": files}).fetchall()
        return time.perf_counter() - start


def open_seconds(folder: Path) -> float:
    """The time to open a lake."""
    start = time.perf_counter()
    LakeTable(folder, STREAM, fence=None)
    return time.perf_counter() - start
