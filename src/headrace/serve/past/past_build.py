"""A view as it was when its log had fewer commits: computed in batch from the lake, in a store of its own."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.define.model import Stream
from headrace.errors import CorruptionError, HeadraceError, UnavailableError
from headrace.lake.commit_times import times_before
from headrace.lake.delta_table import LakeTable
from headrace.maintain.partials_job import SLICE_ROWS, BatchJob, damage_of
from headrace.maintain.spark_joins import TableLogs
from headrace.maintain.speed_step import step_end
from headrace.spark.failures import from_spark, one_line
from headrace.spark.jobs import Job
from headrace.store.open_store import open_temporary
from headrace.store.store_contract import Store
from headrace.store.version import Point, Version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class PastPart:
    """The first commits of a stream: [0, commits)."""

    stream: Stream
    table: LakeTable | None  # None: it has no commit
    commits: int


def build_as_of(
    spark: SparkSession, parts: Sequence[PastPart], version: Version, folder: Path, job: Job, logs: TableLogs
) -> Store:
    """A store that holds the view alone, with these commits of each of its streams in it."""
    try:
        partials = {
            part.stream.name: _compute(spark, part, version, folder / "partials" / str(at), job, logs)
            for at, part in enumerate(parts)
        }
        store = open_temporary(folder)
        try:
            _fill(store, version, parts, partials, job)
        except BaseException:
            store.close()
            raise
        shutil.rmtree(folder / "partials")
        return store
    except HeadraceError:
        raise
    except Exception as error:  # errors of Spark have no common base
        if job.cancelled:
            raise UnavailableError("the query was cancelled", fix="retry") from error
        failure = from_spark(error) or UnavailableError(f"as of: view '{version.view.name}': {one_line(error)}")
        raise failure from error


def _fill(
    store: Store, version: Version, parts: Sequence[PastPart], partials: Mapping[str, list[Path]], job: Job
) -> None:
    """Make the view serve from a batch table of each stream's partials, as a build does."""
    at = {part.stream.name: _point(part) for part in parts}
    copy = store.register(version.view, version.fingerprint, version.patience_ms, at, version.pinned)
    if copy.serving:
        return  # there is no commit in it
    for base in copy.bases:
        store.build(*copy.id, base.stream, base.horizon)
        if not base.built:
            files = partials[base.stream]
            table = store.make_batch_table(copy, (0, base.horizon), files, stopping=lambda: job.cancelled)
            store.fill(*copy.id, base.stream, table)
    store.promote(*copy.id)


def _point(part: PastPart) -> Point:
    if part.table is None or not part.commits:
        return Point(0, None, None, None)
    return Point(part.commits, None, *times_before(part.table, part.commits))


def _compute(
    spark: SparkSession, part: PastPart, version: Version, folder: Path, job: Job, logs: TableLogs
) -> list[Path]:
    """The view's partials of a stream's commits, slice by slice: the files that hold them."""
    folder.mkdir(parents=True)
    table, commits = part.table, part.commits
    batch, paths, start = BatchJob(lambda: spark, logs, stopped=lambda: job.cancelled), list[str](), 0
    if table is None:
        return []
    with table.reading(0, commits) as all_files:
        damage = damage_of(table.storage, all_files)
        if damage:
            raise CorruptionError(damage)
        job.expect(sum(file.rows for file in all_files))
        while start < commits:
            files = [file for file in all_files if file.last_commit >= start]
            end = step_end(files, start, commits, SLICE_ROWS)
            slice_files = [file for file in files if file.first_commit < end]
            rows = sum(file.rows for file in slice_files)
            with job.running(spark, f"{version.view.name} as of commit {commits}", rows):
                if slice_files:
                    paths += batch.write(
                        table, part.stream, version, slice_files, (start, end), folder / f"{start}-{end}"
                    )
            start = end
    return [Path(file) for file in paths]
