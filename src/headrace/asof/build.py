"""A view as it was when its log had fewer commits: computed in batch from the lake, in a store of its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.define.model import Stream
from headrace.errors import CorruptionError, HeadraceError, UnavailableError
from headrace.lake.commits import newest_before
from headrace.lake.table import LakeTable
from headrace.maintain.batch_job import SLICE_ROWS, BatchJob
from headrace.maintain.partials import damage_of
from headrace.maintain.speed import step_end
from headrace.spark.failures import from_spark, one_line
from headrace.spark.jobs import Job
from headrace.store.base import Point, Store, Version
from headrace.store.opening import open_temporary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build_as_of(
    spark: SparkSession, stream: Stream, table: LakeTable, version: Version, commits: int, folder: Path, job: Job
) -> Store:
    """A store that holds the view alone, with commits [0, commits) in it."""
    try:
        files = _compute(spark, stream, table, version, commits, folder / "partials", job)
        store = open_temporary(folder)
        try:
            _fill(store, version, Point(commits, None, newest_before(table, commits)), files, job)
        except BaseException:
            store.close()
            raise
        shutil.rmtree(folder / "partials")
        return store
    except HeadraceError:
        raise
    except Exception as error:  # errors of Spark have no common base
        if job.cancelled:
            raise UnavailableError("the question was cancelled", fix="ask again") from error
        failure = from_spark(error) or UnavailableError(f"as of: view '{version.view.name}': {one_line(error)}")
        raise failure from error


def _fill(store: Store, version: Version, at: Point, files: list[str], job: Job) -> None:
    """Make the view serve from one batch table with these partials, as a build does."""
    view = version.view
    past_version = store.register(view, version.fingerprint, version.patience_ms, at)
    if not at.commit:
        return  # it serves already, and is empty
    store.build(view.name, past_version.number, at.commit)
    paths = [Path(file) for file in files]
    table = store.make_batch_table(past_version, (0, at.commit), paths, stopping=lambda: job.cancelled)
    store.fill(view.name, past_version.number, table)
    store.promote(view.name, past_version.number)


def _compute(
    spark: SparkSession, stream: Stream, table: LakeTable, version: Version, commits: int, folder: Path, job: Job
) -> list[str]:
    """The view's partials of these commits, slice by slice: the files that hold them."""
    folder.mkdir(parents=True)
    batch, paths, start = BatchJob(lambda: spark), list[str](), 0
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
                        table.folder, stream, version, slice_files, (start, end), folder / f"{start}-{end}"
                    )
            start = end
    return paths
