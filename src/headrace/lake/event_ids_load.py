"""Reads the ids of events from the files of a lake into runs: in Spark's workers, or here if there are few."""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.define.model import Stream
from headrace.lake.added_fields import read_filled
from headrace.lake.event_ids import Entries, Run, read_ids, write_run
from headrace.lake.repeated_events import Once
from headrace.lake.table_schema import COMMIT
from headrace.spark.session import Session

TASK_ROWS = 500_000  # that one task reads
FEW_ROWS = 100_000  # that are read without Spark
GATHER_ROWS = 100_000  # that are hashed at once
RUN_ENTRIES = 2_000_000  # in memory before a run is written

Piece = tuple[str, int, int]  # path, row group and its rows


@dataclass(frozen=True)
class IdLoad:
    """The values that all tasks of one load share."""

    stream: Stream
    once: Once
    commits: tuple[int, int]  # [from, to)
    segments: frozenset[int]
    folder: str  # for the runs


Loader = Callable[[IdLoad, Sequence[Piece]], list[Run]]


def pieces_of(paths: Iterable[str], once: Once, segments: Collection[int]) -> list[Piece]:
    """The row groups that may hold events of these segments."""
    pieces, ordered = [], sorted(segments)

    def any_in(first: int, last: int) -> bool:
        at = bisect_left(ordered, first)
        return at < len(ordered) and ordered[at] <= last

    for path in paths:
        for group, (rows, bounds) in enumerate(_bounds(path, once.time_column)):
            if bounds is None or any_in(bounds[0] // once.segment_us, bounds[1] // once.segment_us):
                pieces.append((path, group, rows))
    return pieces


@lru_cache(maxsize=1 << 16)
def _bounds(path: str, column: str) -> tuple[tuple[int, tuple[int, int] | None], ...]:
    """The rows of each row group, and the bounds of a column of times, if it has them. A file never changes."""
    with pq.ParquetFile(path) as file:
        if column not in file.schema_arrow.names:
            return tuple((file.metadata.row_group(n).num_rows, None) for n in range(file.num_row_groups))
        return tuple(
            (file.metadata.row_group(number).num_rows, _bounds_of(file, number, column))
            for number in range(file.num_row_groups)
        )


def _bounds_of(file: pq.ParquetFile, number: int, column: str) -> tuple[int, int] | None:
    """The bounds by its statistics; a file from before UNIQUE was declared may have none: its times are read, once."""
    group = file.metadata.row_group(number)
    for chunk in map(group.column, range(group.num_columns)):
        if chunk.path_in_schema == column and chunk.statistics is not None and chunk.statistics.has_min_max:
            return chunk.statistics.min_raw, chunk.statistics.max_raw
    bounds = pc.min_max(file.read_row_group(number, [column]).column(column).cast(pa.int64())).as_py()
    return None if bounds["min"] is None else (bounds["min"], bounds["max"])


def on_spark(session: Session) -> Loader:
    """Loads in Spark's workers, if there is much to read."""

    def load(work: IdLoad, pieces: Sequence[Piece]) -> list[Run]:
        if sum(rows for _, _, rows in pieces) <= FEW_ROWS:
            return load_here(work, pieces)
        tasks = list(_tasks(pieces))
        loads = session().sparkContext.parallelize(tasks, len(tasks)).mapPartitions(_task_reader(work))
        return [run for runs in loads.collect() for run in runs]

    return load


def load_here(work: IdLoad, pieces: Sequence[Piece]) -> list[Run]:
    """Loads in this process."""
    return _load(work, pieces)


def _tasks(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    task: list[Piece] = []
    for piece in pieces:
        task.append(piece)
        if sum(rows for _, _, rows in task) >= TASK_ROWS:
            yield task
            task = []
    if task:
        yield task


def _task_reader(work: IdLoad) -> Callable[[Iterable[list[Piece]]], Iterator[list[Run]]]:
    """A function for mapPartitions: lists of pieces in, the runs of each out."""

    def read(tasks: Iterable[list[Piece]]) -> Iterator[list[Run]]:
        for task in tasks:
            yield _load(work, task)

    return read


def _load(work: IdLoad, pieces: Sequence[Piece]) -> list[Run]:
    columns = tuple(dict.fromkeys([COMMIT, *work.once.reads]))
    runs: list[Run] = []
    parts: list[Entries] = []
    batches = (rows for path, group, _ in pieces for rows in read_filled(path, [group], work.stream, columns))
    for rows in _gather(batches):
        entries, _ = read_ids(_within(rows, work.commits), work.once.columns, work.once.time_column)
        parts.append(entries)
        if sum(map(len, parts)) >= RUN_ENTRIES:
            runs += _write(work, parts)
            parts = []
    return runs + _write(work, parts)


def _gather(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Combine the rows into larger tables: each costs a query."""
    tables: list[pa.Table] = []
    for batch in batches:
        tables.append(batch)
        if sum(map(len, tables)) >= GATHER_ROWS:
            yield pa.concat_tables(tables)
            tables = []
    if tables:
        yield pa.concat_tables(tables)


def _write(work: IdLoad, parts: Sequence[Entries]) -> list[Run]:
    """A run of the entries of the segments; entries of others are left out."""
    if not parts:
        return []
    entries = Entries.join(parts)
    is_needed = np.isin(work.once.segments(entries.time_us), list(work.segments))
    path = Path(work.folder) / f"load-{uuid.uuid4().hex}.ids"
    return [write_run(path, entries.take(is_needed).sort())] if is_needed.any() else []


def _within(rows: pa.Table, commits: tuple[int, int]) -> pa.Table:
    commit = rows.column(COMMIT)
    return rows.filter(pc.and_(pc.greater_equal(commit, commits[0]), pc.less(commit, commits[1])))
