"""The append query of a stream: one micro-batch of Structured Streaming becomes one lake commit."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import orjson
from pyspark.sql import DataFrame, SparkSession

from headrace.define.model import Stream
from headrace.disk import disk_full, is_disk_full
from headrace.errors import CorruptionError, DiskFullError, HeadraceError, JavaEndedError, UnavailableError
from headrace.faults import fault_point
from headrace.lake.file import NewFile
from headrace.lake.range import RESULT_COLUMNS, Derivation, Work, range_writer
from headrace.lake.table import LakeState, LakeTable
from headrace.spark.failures import from_spark, is_transient, one_line
from headrace.spark.session import Session, is_alive
from headrace.timing import Timing
from headrace.transport.base import Reader
from headrace.transport.position import Position
from headrace.transport.source import NAME, TransportSource, source_options

MOST_BYTES = 96 << 20  # of the transport in one micro-batch
POOL = "append"


class Companion(Protocol):
    """What makes use of the events of a commit while workers have them in memory. It never fails a commit."""

    def plan(self, stream: Stream, at: LakeState) -> Derivation | None:
        """What the workers shall derive of the commit after `at`; None: nothing."""

    def offer(self, commit: int, derived: Sequence[str]) -> None:
        """What they derived, one text for each range, before the commit is made."""

    def withdraw(self, commit: int) -> None:
        """The commit was not made."""


class Append:
    """Moves one stream's events from its transport to its lake table, exactly once.

    Spark's checkpoint is not used for recovery: each start uses a new one and begins where the lake ends.
    """

    def __init__(
        self,
        session: Session,
        stream: Stream,
        reader: Reader,
        table: LakeTable,
        scratch: Path,
        *,
        companion: Companion | None = None,
        on_commit: Callable[[], None] = lambda: None,
        most_bytes: int = MOST_BYTES,
        every_ms: int = 0,
    ) -> None:
        self._session = session
        self._stream = stream
        self._reader = reader
        self._table = table
        self._scratch = scratch
        self._companion = companion
        self._on_commit = on_commit
        self._most_bytes = most_bytes
        self._every_ms = every_ms
        self._query: Any = None
        self._spark: SparkSession | None = None  # that the query runs in
        self.error: HeadraceError | None = None
        self.failed_transiently = False
        self.last_commit_ms: float | None = None
        self.commit_times = Timing()

    def start(self) -> None:
        """Start the query where the lake ends. Raises NotReadyError or JavaEndedError while no Java process runs."""
        spark = self._session()
        with self._table.turn:  # a micro-batch of the previous query may be committing
            start = self._table.state.position
        self.error, self.failed_transiently = None, False
        self._scratch.mkdir(parents=True, exist_ok=True)
        checkpoint = tempfile.mkdtemp(prefix=f"append-{self._stream.name}-", dir=self._scratch)
        try:
            self._query, self._spark = self._start_query(spark, start, checkpoint), spark
        except Exception as error:
            if is_alive(spark):
                raise
            raise JavaEndedError("Java ended while an append was started", fix="it is retried") from error

    def _start_query(self, spark: SparkSession, start: Position, checkpoint: str) -> Any:
        spark.dataSource.register(TransportSource)
        tasks = spark.sparkContext.defaultParallelism
        options = source_options(self._reader, start, most_bytes=self._most_bytes, tasks=tasks)
        ranges = spark.readStream.format(NAME).options(**options).load()
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        writer = ranges.writeStream.queryName(f"append {self._stream.name}").foreachBatch(self._append)
        trigger = writer.trigger(processingTime=f"{self._every_ms} milliseconds")
        return trigger.option("checkpointLocation", checkpoint).start()

    def redefine(self, stream: Stream) -> None:
        """Use a changed definition from the next micro-batch on."""
        with self._table.turn:  # not during one
            self._stream = stream

    def is_active(self) -> bool:
        """Whether the query runs. This calls Spark, so it also shows that Spark responds."""
        return self._query is not None and not self.is_orphaned() and bool(self._query.isActive)

    def is_orphaned(self) -> bool:
        """Whether the query has no Java process: none was started yet, or it ended, and the query with it."""
        return self._spark is None or not is_alive(self._spark)

    def is_polling(self) -> bool:
        """Whether the query has initialized its source and polls for events."""
        return self.is_active() and not str(self._query.status["message"]).startswith("Initializing")

    def failure(self) -> str | None:
        """Why the query ended, in a sentence."""
        if self.error is not None:
            return str(self.error)
        reason = self._query.exception() if self._query is not None else None
        if reason is None:
            return None
        self.failed_transiently = is_transient(reason)
        full = disk_full("Spark cannot work", self._scratch) if is_disk_full(reason) else None
        return one_line(from_spark(reason) or full or reason)

    def stop(self) -> None:
        """Stop. A running micro-batch either commits completely or leaves nothing."""
        if self._query is not None and not self.is_orphaned():
            self._query.stop()
        self._query = None

    def _append(self, ranges: DataFrame, _batch_id: int) -> None:
        start_s = time.monotonic()
        try:
            with self._table.turn:
                self._append_ranges(ranges)
        except Exception as error:
            self.error = from_spark(error) or (
                disk_full("Spark cannot work", self._scratch) if is_disk_full(error) else None
            )
            raise
        self.last_commit_ms = (time.monotonic() - start_s) * 1000
        self.commit_times.note(self.last_commit_ms / 1000)
        self._on_commit()

    def _append_ranges(self, ranges: DataFrame) -> None:
        at = self._table.state
        work = Work(
            self._stream,
            self._reader,
            str(self._table.folder),
            at.next_commit,
            time.time_ns() // 1000,
            at.newest_us,
            self._table.since,
            self._companion.plan(self._stream, at) if self._companion else None,
        )
        try:
            self._commit(at, sorted(ranges.mapInArrow(range_writer(work), RESULT_COLUMNS).collect()))
        except BaseException:
            if self._companion:
                self._companion.withdraw(at.next_commit)
            raise

    def _commit(self, at: LakeState, results: list[Any]) -> None:
        if not results:
            return
        end = _tiled_end(at, results)
        newest = max((result.newest_us for result in results if result.newest_us is not None), default=None)
        files = [NewFile(**file) for result in results for file in orjson.loads(result.files)]
        if self._companion:
            self._companion.offer(at.next_commit, [result.derived for result in results if result.derived])
        fault_point("append.before_commit")
        newest = at.newest_us if newest is None else max(newest, at.newest_us or newest)
        try:
            self._table.commit(at, end, newest, files)
        except (DiskFullError, UnavailableError):
            for file in files:
                with suppress(OSError):
                    self._table.storage.remove(file.path)
            raise
        fault_point("append.after_commit")


def _tiled_end(at: LakeState, results: list[Any]) -> Position:
    """Where the ranges end. Raises CorruptionError unless they continue each partition without gap or overlap."""
    position = at.position
    for result in results:  # in the order of partition and start
        if result.start != position.offset(result.partition):
            partition = f" of partition {result.partition}" if result.partition else ""
            raise CorruptionError(
                "the ranges of a micro-batch do not continue the lake",
                found=f"a range from {result.start}{partition}",
                expected=f"one from {position.offset(result.partition)}",
                fix="nothing was committed; the append restarts at the end of the lake",
            )
        position = position.merge(Position.at(result.end, result.partition))
    return position
