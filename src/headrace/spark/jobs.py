"""The Spark jobs of one request: in the pool of batch jobs, counted for progress, cancelled together."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import JavaEndedError, UnavailableError
from headrace.spark.session import BATCH_POOL, is_alive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Progress:
    """How much is done, in events if their number is known, else in tasks."""

    done: int
    known: int  # 0: nothing is known yet
    unit: str

    def __str__(self) -> str:
        return f"{self.done:,} of {self.known:,} {self.unit}"


class Job:
    """Work that a caller waits for. `cancel` and `progress` may be called from any thread."""

    def __init__(self) -> None:
        self._spark: SparkSession | None = None
        self._lock = threading.Lock()
        self._group = ""
        self._events = self._events_done = self._running_events = 0
        self._reported: Progress | None = None
        self.cancelled = False

    def expect(self, events: int) -> None:
        """Set the number of events that will be read."""
        self._events, self._events_done = events, 0

    def tell(self, progress: Progress) -> None:
        """Set the progress that a server reports for the job that it runs."""
        self._reported = progress

    @contextmanager
    def running(self, spark: SparkSession, what: str, events: int = 0) -> Iterator[None]:
        """Spark jobs that this thread starts within the block belong to this job, and read this many events."""
        context = spark.sparkContext
        with self._lock:
            if self.cancelled:
                raise UnavailableError("the query was cancelled", fix="retry")
            self._spark, self._group, self._running_events = spark, f"history-{uuid.uuid4().hex}", events
        try:
            context.setJobGroup(self._group, what, interruptOnCancel=True)
            context.setLocalProperty("spark.scheduler.pool", BATCH_POOL)
            yield
        except Exception as error:
            if is_alive(spark):
                raise
            raise JavaEndedError("Spark was restarted while it ran the query", fix="retry") from error
        finally:
            with self._lock:
                self._spark = None
                self._events_done += events
            if is_alive(spark):
                for name in ("spark.scheduler.pool", "spark.jobGroup.id", "spark.job.description"):
                    # The thread is used again. Spark's annotation does not say that None unsets a property.
                    context.setLocalProperty(name, None)  # type: ignore[arg-type]

    def cancel(self) -> None:
        """Cancel the job: no caller waits for it."""
        with self._lock:
            self.cancelled = True
            if self._spark is not None and is_alive(self._spark):
                self._spark.sparkContext.cancelJobGroup(self._group)

    def progress(self) -> Progress:
        """The progress so far."""
        if self._reported is not None:
            return self._reported
        done, total = self._tasks()
        if not self._events:
            return Progress(done, total, "tasks")
        running = self._running_events * done // total if total else 0
        return Progress(min(self._events, self._events_done + running), self._events, "events")

    def _tasks(self) -> tuple[int, int]:
        with self._lock:
            if self._spark is None or not is_alive(self._spark):
                return 0, 0
            tracker, group = self._spark.sparkContext.statusTracker(), self._group
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return sum(s.numCompletedTasks for s in stages if s), sum(s.numTasks for s in stages if s)
