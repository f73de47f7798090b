"""Finds the event that makes the computation of a view fail, by computing smaller and smaller parts of its commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from headrace.define.model import Stream
from headrace.format import cut
from headrace.lake.storage import Storage
from headrace.lake.table_files import LakeFile
from headrace.lake.table_schema import COMMIT, POSITION, VALUE
from headrace.maintain.partials_job import columns_for, partials, read_events
from headrace.maintain.spark_joins import NO_LOGS, TableLogs
from headrace.store.version import Version

WAYS = 16  # parts that a range is cut into: where each failure ends a Java, few rounds matter more than few attempts
MOST_CHARACTERS = 80  # of an event, in a message

Attempt = Callable[[int, int], str | None]  # computes events with positions in [low, high); the error, or None


@dataclass(frozen=True)
class FailedCommits:
    """Commits of a stream over which a version could not be computed."""

    stream: Stream
    version: Version
    storage: Storage  # of the lake
    files: Sequence[LakeFile]
    commits: tuple[int, int]
    logs: TableLogs = NO_LOGS  # of the tables that its rows are joined to; without it these are empty


@dataclass(frozen=True)
class Culprit:
    """An event that makes a view fail by itself."""

    commit: int
    position: int
    value: str
    error: str

    def __str__(self) -> str:
        return f"the event at position {self.position} (commit {self.commit}): {cut(self.value, MOST_CHARACTERS)}"


def find_culprit(case: FailedCommits, attempt: Attempt) -> Culprit | None:
    """The first event that fails alone; None if only several events together fail, or already none at all."""
    events = _events(case)
    positions = events.column(POSITION).to_pylist()
    if attempt(0, 0) is not None:
        return None
    low, high, error = 0, len(positions), None
    while error is None or high - low > 1:
        size = max(1, -(-(high - low) // WAYS))
        for start in range(low, high, size):
            end = min(start + size, high)
            error = attempt(positions[start], positions[end - 1] + 1)
            if error is not None:
                low, high = start, end
                break
        else:
            return None
    commit = events.column(COMMIT)[low].as_py()
    return Culprit(commit, positions[low], _value_of(case, positions[low]), error)


def attempt_on(spark: SparkSession, case: FailedCommits) -> Callable[[int, int], None]:
    """A function that computes some of the events on a session, and lets what fails be raised."""

    def compute(low: int, high: int) -> None:
        columns = tuple(dict.fromkeys([*columns_for([case.version.view]), POSITION]))
        fields = [name for name, _ in case.version.view.reads_of(case.stream.name)]
        events = read_events(spark, case.storage, case.stream, case.files, case.commits, columns, fields)
        some = events.where(F.col(POSITION).between(low, high - 1))
        patience_ms = case.version.base(case.stream.name).patience_ms
        with case.logs.opened(spark, case.stream.name, case.version.pinned) as joins:
            rows = partials(some, case.stream, case.version.view, patience_ms, joins)
            rows.write.format("noop").mode("overwrite").save()  # they are computed, and nobody needs them

    return compute


def _events(case: FailedCommits) -> pa.Table:
    """Commit and position of each event of the case, in the order of their positions."""
    within = (pc.field(COMMIT) >= case.commits[0]) & (pc.field(COMMIT) < case.commits[1])
    rows = _dataset(case).to_table(columns=[COMMIT, POSITION], filter=within)
    return rows.sort_by(POSITION)


def _value_of(case: FailedCommits, position: int) -> str:
    rows = _dataset(case).to_table(columns=[VALUE], filter=pc.field(POSITION) == position)
    return bytes(rows.column(VALUE)[0].as_py()).decode(errors="replace").strip()


def _dataset(case: FailedCommits) -> ds.Dataset:
    return ds.dataset([case.storage.locate(file.path) for file in case.files], format="parquet")
