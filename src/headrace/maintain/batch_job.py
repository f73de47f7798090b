"""The Spark job of the batch layer: partials of a long range of commits, computed by one task for each core.

A task cannot be pre-empted. Spark has more slots than cores, so that new commits find a free one beside these tasks:
one such job runs at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.define.model import Stream
from headrace.errors import UnavailableError
from headrace.lake.files import LakeFile
from headrace.lake.table import LakeTable
from headrace.maintain.spark_joins import NO_LOGS, TableLogs
from headrace.maintain.partials import columns_for, read_events, write_partials
from headrace.spark.session import Session
from headrace.store.version import Version

POOL = "batch"
SLICE_ROWS = 5_000_000  # events of one job: planning it is then a tenth of its time, and its groups are few
WORTH_MEASURING = 500_000  # events: a smaller job says more of the planning than of the reading
LOOK_EVERY_S = 0.1  # whether work that waits for its turn was stopped
EXCHANGED_BYTES = 4 << 20  # of partials that one task folds
SETTINGS = {
    # As many tasks fold partials as these need: one for some thousand groups, dozens for a million.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(EXCHANGED_BYTES),
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": str(EXCHANGED_BYTES),
    "spark.sql.shuffle.partitions": "64",
    "spark.sql.files.openCostInBytes": str(1 << 20),
}


_turn = threading.Lock()  # of the jobs of this process, which has one Spark session


class BatchJob:
    """Reads long ranges of the lake, in a Spark session with settings of its own; for one thread."""

    def __init__(
        self, session: Session, logs: TableLogs = NO_LOGS, *, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        """`stopped`: whether a job that waits for its turn is no longer wanted."""
        self._session = session
        self._logs = logs
        self._stopped = stopped
        self._parent: SparkSession | None = None
        self._own: SparkSession | None = None
        self.rate: float | None = None  # events per second, of the last job that was worth measuring

    def write(
        self,
        table: LakeTable,
        stream: Stream,
        version: Version,
        files: Sequence[LakeFile],
        commits: tuple[int, int],
        target: Path,
        *,
        batch: bool = True,
    ) -> list[str]:
        """Compute a version's partials of commits [from, to) into Parquet files below `target`; these files.

        `batch`: for a batch table, else for the speed layer.
        """
        with self._in_turn():
            began = time.monotonic()
            written = self._write(table, stream, version, files, commits, target, batch=batch)
            rows = sum(file.rows for file in files)
            if rows >= WORTH_MEASURING:
                self.rate = rows / (time.monotonic() - began)
        return written

    def _write(
        self,
        table: LakeTable,
        stream: Stream,
        version: Version,
        files: Sequence[LakeFile],
        commits: tuple[int, int],
        target: Path,
        *,
        batch: bool,
    ) -> list[str]:
        spark = self._derived()
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        fields = [name for name, _ in version.view.reads_of(stream.name)]
        events = read_events(spark, table.storage, stream, files, commits, columns_for([version.view]), fields)
        tasks = spark.sparkContext.defaultParallelism
        with self._logs.opened(spark, stream.name, version.pinned, (table, commits)) as joins:
            return write_partials(events, stream, version, target, joins, batch=batch, tasks=tasks)

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        while not _turn.acquire(timeout=LOOK_EVERY_S):
            self._raise_if_stopped()
        try:
            self._raise_if_stopped()
            yield
        finally:
            _turn.release()

    def _raise_if_stopped(self) -> None:
        if self._stopped():
            raise UnavailableError("the work was stopped before its Spark job began", fix="repeat it")

    def _derived(self) -> SparkSession:
        """A session of the current one's context, with our settings."""
        parent = self._session()
        if self._own is None or parent is not self._parent:
            self._parent, self._own = parent, parent.newSession()
            for name, value in SETTINGS.items():
                self._own.conf.set(name, value)
        return self._own
