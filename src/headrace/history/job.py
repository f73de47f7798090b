"""The Spark jobs of one request: in a pool of their own, counted for whoever shows progress, cancelled together."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POOL = "history"


class Job:
    """What somebody waits for. `cancel` and `tasks` may be called from any thread."""

    def __init__(self) -> None:
        self._group = f"history-{uuid.uuid4().hex}"
        self._spark: SparkSession | None = None
        self._lock = threading.Lock()
        self.cancelled = False

    @contextmanager
    def running(self, spark: SparkSession, what: str) -> Iterator[None]:
        """Jobs that this thread starts within the block are this one's."""
        context = spark.sparkContext
        with self._lock:
            self._spark = spark
        context.setJobGroup(self._group, what, interruptOnCancel=True)
        context.setLocalProperty("spark.scheduler.pool", POOL)
        try:
            yield
        finally:
            with self._lock:
                self._spark = None
            for name in ("spark.scheduler.pool", "spark.jobGroup.id", "spark.job.description"):
                context.setLocalProperty(name, None)  # the thread serves others next

    def cancel(self) -> None:
        """Nobody waits any more."""
        self.cancelled = True
        with self._lock:
            if self._spark is not None:
                self._spark.sparkContext.cancelJobGroup(self._group)

    def tasks(self) -> tuple[int, int]:
        """How many of the tasks that are known so far are done."""
        with self._lock:
            if self._spark is None:
                return 0, 0
            tracker = self._spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return sum(s.numCompletedTasks for s in stages if s), sum(s.numTasks for s in stages if s)
