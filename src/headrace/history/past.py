"""A view as it was when its log had fewer commits: computed in batch from the lake, in a store of its own."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.define.model import Stream
from headrace.errors import CorruptionError, HeadraceError, UnavailableError
from headrace.failures import from_spark, one_line
from headrace.history.job import Job
from headrace.lake.commits import newest_before
from headrace.lake.health import check_files, check_footers
from headrace.lake.table import LakeTable
from headrace.maintain.batch_job import SLICE_ROWS, BatchJob
from headrace.maintain.speed import step_end
from headrace.store.base import Step, Version
from headrace.store.duckdb import DuckStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_past(
    spark: SparkSession, stream: Stream, table: LakeTable, version: Version, commits: int, folder: Path, job: Job
) -> DuckStore:
    """A store that holds the view alone, with commits [0, commits) in it."""
    try:
        files = _compute(spark, stream, table, version, commits, folder, job)
        store = DuckStore.open(folder / "views.duckdb", 1)
        try:
            made = store.register(version.view, version.fingerprint, version.patience_ms)
            if commits:
                newest_us, now_us = newest_before(table, commits), time.time_ns() // 1000
                step = Step(stream.name, 0, commits, 0, newest_us, now_us)
                store.apply(step, {(version.view.name, made.number): files})
        except BaseException:
            store.close()
            raise
        for slice_folder in folder.glob("*-*"):
            shutil.rmtree(slice_folder)
        return store
    except HeadraceError:
        raise
    except Exception as error:  # Spark's share no base
        if job.cancelled:
            raise UnavailableError("the question was cancelled", fix="ask again") from error
        said = from_spark(error) or UnavailableError(f"the past of view '{version.view.name}': {one_line(error)}")
        raise said from error


def _compute(
    spark: SparkSession, stream: Stream, table: LakeTable, version: Version, commits: int, folder: Path, job: Job
) -> list[str]:
    """The view's partials of these commits, slice by slice: the files that hold them."""
    folder.mkdir(parents=True)
    batch, written, start = BatchJob(spark), list[str](), 0
    with table.reading(0, commits) as all_files:
        damage = next(iter(check_files(table.folder, all_files) or check_footers(table.folder, all_files)), None)
        if damage:
            raise CorruptionError(f"lake file {damage}")
        job.expect(sum(file.rows for file in all_files))
        while start < commits:
            files = [file for file in all_files if file.last_commit >= start]
            end = step_end(files, start, commits, SLICE_ROWS)
            taken = [file for file in files if file.first_commit < end]
            rows = sum(file.rows for file in taken)
            with job.running(spark, f"{version.view.name} as of commit {commits}", rows):
                if taken:
                    written += batch.write(
                        table.folder, stream, version, taken, (start, end), folder / f"{start}-{end}"
                    )
            start = end
    return written
