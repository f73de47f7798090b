"""The append of a stream: a loop whose micro-batches are Spark jobs, each of which becomes one lake commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

from headrace.define.model import Stream
from headrace.disk import disk_full, is_disk_full
from headrace.errors import CorruptionError, DiskFullError, HeadraceError, JavaEndedError, UnavailableError
from headrace.faults import fault_point
from headrace.lake.append_task import RangeDerivation, RangeResult, Work, range_writer, verdict_of
from headrace.lake.commit_times import IdleClock
from headrace.lake.delta_table import LakeState, LakeTable
from headrace.lake.event_id_index import UniqueIndex
from headrace.lake.event_ids_load import on_spark
from headrace.lake.lateness_record import LatenessRecord
from headrace.lake.repeated_events import Known, RepeatVerdict
from headrace.lake.table_schema import ChoosePins, Pins, no_pins
from headrace.spark.failures import from_spark, is_transient, one_line
from headrace.spark.session import Session, is_alive
from headrace.timing import Timing
from headrace.transport.position import Position, Range
from headrace.transport.transport_contract import Reader

MOST_BYTES = 96 << 20  # of the transport in one micro-batch
SMALLEST_RANGE = 1 << 20  # below this a second task costs more than it saves
POLL_S = 0.02  # interval of reading the end of the transport while there are no new events
STOP_S = 10.0  # how long `stop` waits for the running micro-batch
POOL = "append"
Hold = Callable[[threading.Event], None]  # returns when the first micro-batch may begin, or when the event is set


class Companion(Protocol):
    """Computes something from the events of a commit while workers have them in memory. It never fails a commit."""

    def plan(self, stream: Stream, at: LakeState, pins: Pins) -> RangeDerivation | None:
        """The work for the next commit after the state `at`, with tables as pinned; None: nothing to do."""

    def offer(self, commit: int, derived: Sequence[str]) -> None:
        """Receive the results of the workers before the commit, one text for each range."""

    def withdraw(self, commit: int) -> None:
        """Forget the results: the commit failed."""


class Append:
    """Moves one stream's events from its transport to its lake table, exactly once.

    It keeps no state: each start, and each micro-batch, begins where the lake ends.
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
        lateness: LatenessRecord | None = None,
        pins: ChoosePins = no_pins,
        hold: Hold = lambda stopping: None,
        unique: UniqueIndex | None = None,
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
        self._lateness = lateness
        self._pins = pins
        self._hold = hold
        self._unique = unique or UniqueIndex(table, scratch, on_spark(session))
        self._on_commit = on_commit
        self._most_bytes = most_bytes
        self._every_ms = every_ms
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()  # of the current thread
        self._idle = IdleClock()
        self._reason: Exception | None = None  # the error that ended the last thread
        self._polls = False
        self._spark: SparkSession | None = None  # the session of the thread
        self.error: HeadraceError | None = None
        self.failed_transiently = False
        self.last_commit_ms: float | None = None
        self.commit_times = Timing()

    def start(self) -> None:
        """Start where the lake ends. Raises NotReadyError or JavaEndedError while no Java process runs."""
        spark = self._session()
        if not is_alive(spark):
            raise JavaEndedError("Java ended while an append was started", fix="Headrace retries automatically")
        with self._table.turn:  # a micro-batch of the previous thread may be committing
            self.error, self._reason, self.failed_transiently, self._polls = None, None, False, False
        self._idle.restart()
        self._spark, self._stopping = spark, threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(spark, self._stopping), name=f"append {self._stream.name}", daemon=True
        )
        self._thread.start()

    def redefine(self, stream: Stream) -> None:
        """Use a changed definition from the next micro-batch on."""
        with self._table.turn:  # not while one is running
            self._stream = stream

    def is_active(self) -> bool:
        """Return whether it runs."""
        return self._thread is not None and self._thread.is_alive() and not self.is_orphaned()

    def is_orphaned(self) -> bool:
        """Return whether its Java process has not started yet, or has ended."""
        return self._spark is None or not is_alive(self._spark)

    def is_polling(self) -> bool:
        """Return whether it polls for events."""
        return self._polls and self.is_active()

    def failure(self) -> str | None:
        """The reason why it ended; None if it did not fail."""
        if self.error is not None:
            return str(self.error)
        if self._reason is None:
            return None
        self.failed_transiently = is_transient(self._reason)
        return one_line(self._reason)

    def stop(self) -> None:
        """Stop. A running micro-batch either commits completely or leaves nothing."""
        self._stopping.set()
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        if self._spark is not None and is_alive(self._spark):
            self._spark.sparkContext.cancelJobGroup(self._group)
        thread.join(STOP_S)
        self._thread = None

    @property
    def _group(self) -> str:
        return f"append {self._stream.name} {id(self)}"

    # The thread

    def _run(self, spark: SparkSession, stopping: threading.Event) -> None:
        try:
            spark.sparkContext.setJobGroup(self._group, f"append {self._stream.name}", interruptOnCancel=True)
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
            is_prepared = False
            self._hold(stopping)
            while not stopping.is_set():
                start_s = time.monotonic()
                ranges = self._next_ranges(spark)
                self._polls = True
                if ranges:
                    self.append(spark, ranges, stopping)
                elif not is_prepared:  # load the ids that the next events need, before these arrive
                    is_prepared = True
                    with self._table.turn:
                        self._unique.plan(self._stream, self._table.state)
                else:
                    self._record_idle(stopping)
                pause_s = self._every_ms / 1000 - (time.monotonic() - start_s) if ranges else POLL_S
                stopping.wait(max(0.0, pause_s))
        except Exception as error:
            if not stopping.is_set():
                self._reason = error
                self.error = from_spark(error) or (
                    disk_full("Spark cannot work", self._scratch) if is_disk_full(error) else None
                )

    def _record_idle(self, stopping: threading.Event) -> None:
        """Advance the time of a stream without events, if it has an idle time-out."""
        timeout_ms = self._stream.idle_timeout_ms
        if timeout_ms is None:
            return
        with self._table.turn:
            at = self._table.state
            idle_us = None if stopping.is_set() else self._idle.advance(at, timeout_ms)
            if idle_us is None:
                return
            self.commit_idle(at, idle_us)
        self._on_commit()

    def commit_idle(self, at: LakeState, idle_us: int) -> None:
        """A commit without events, which says what the time of the stream is."""
        if self._companion:  # there is nothing to compute, but it learns that this commit has no events
            self._companion.plan(self._stream, at, no_pins())
            self._companion.offer(at.next_commit, ())
        try:
            self._table.commit(at, at.position, at.newest_us, [], idle_us=idle_us)
        except BaseException:
            if self._companion:
                self._companion.withdraw(at.next_commit)
            raise
        self._note_lateness(at, ())

    def _next_ranges(self, spark: SparkSession) -> list[Range]:
        """The ranges of the next micro-batch, one task each; none if there are no new events."""
        reader, start = self._reader, self._table.state.position
        end = start.merge(reader.end())  # a transport that lost data ends before the lake
        if start == end:
            return []
        if reader.bytes_between(start, end) > self._most_bytes:
            most = reader.ranges(start, end, target_bytes=self._most_bytes, most_bytes=self._most_bytes)
            end = reduce(Position.merge, (Position.at(part.end, part.partition) for part in most), start)
        tasks = 1 if self._stream.unique else spark.sparkContext.defaultParallelism
        share = -(-reader.bytes_between(start, end) // tasks)
        return reader.ranges(start, end, target_bytes=max(SMALLEST_RANGE, share))

    def append(self, spark: SparkSession, ranges: Sequence[Range], stopping: threading.Event | None = None) -> None:
        """Run one micro-batch: these ranges, which start at the end of the lake, become one commit."""
        start_s = time.monotonic()
        with self._table.turn:
            if stopping is not None and stopping.is_set():
                return
            self._append_ranges(spark, ranges)
        self.last_commit_ms = (time.monotonic() - start_s) * 1000
        self.commit_times.note(self.last_commit_ms / 1000)
        self._on_commit()

    def _append_ranges(self, spark: SparkSession, ranges: Sequence[Range]) -> None:
        at, pins = self._table.state, self._pins()
        work = Work(
            self._stream,
            self._reader,
            str(self._table.folder),
            at.next_commit,
            time.time_ns() // 1000,
            at.time_us,
            self._table.since,
            self._companion.plan(self._stream, at, pins) if self._companion else None,
            pins,
        )
        try:
            self._commit(at, self._write(spark, work, sorted(ranges), at))
        except BaseException:
            if self._companion:
                self._companion.withdraw(at.next_commit)
            self._unique.reset()
            raise

    def _write(self, spark: SparkSession, work: Work, ranges: Sequence[Range], at: LakeState) -> list[RangeResult]:
        """Have the workers write the files of a commit. Of a stream with UNIQUE one task writes all of them."""

        def write(known: Known | None) -> tuple[list[RangeResult], RepeatVerdict]:
            # Neither a query of Structured Streaming nor a DataFrame: planning them takes longer than small commits.
            tasks = spark.sparkContext.parallelize(ranges, 1 if known else len(ranges))
            results = tasks.mapPartitions(range_writer(replace(work, known=known))).collect()
            return sorted(results, key=RangeResult.order), verdict_of(results)

        return self._unique.settle(self._stream, at, write)

    def _commit(self, at: LakeState, results: Sequence[RangeResult]) -> None:
        end = _tiled_end(at, results)
        newest = max((result.newest_us for result in results if result.newest_us is not None), default=None)
        files = [file for result in results for file in result.files]
        if self._companion:
            self._companion.offer(at.next_commit, [result.derived for result in results if result.derived])
        fault_point("append.before_commit")
        newest = at.newest_us if newest is None else max(newest, at.newest_us or newest)
        verdict = verdict_of(results)
        try:
            self._table.commit(at, end, newest, files, duplicates=verdict.duplicates)
        except (DiskFullError, UnavailableError):
            for file in files:
                with suppress(OSError):
                    self._table.storage.remove(file.path)
            raise
        fault_point("append.after_commit")
        self._unique.adopt(verdict)
        self._note_lateness(at, results)

    def _note_lateness(self, at: LakeState, results: Sequence[RangeResult]) -> None:
        if self._lateness is not None:
            self._lateness.note(at.next_commit, [result.lateness for result in results])


def _tiled_end(at: LakeState, results: Sequence[RangeResult]) -> Position:
    """The end of the ranges. Raises CorruptionError unless they continue each partition without gap or overlap."""
    position = at.position
    for result in results:  # sorted by partition and start
        part = result.part
        if part.start != position.offset(part.partition):
            partition = f" of partition {part.partition}" if part.partition else ""
            raise CorruptionError(
                "the ranges of a micro-batch do not continue the lake",
                found=f"a range from {part.start}{partition}",
                expected=f"one from {position.offset(part.partition)}",
                fix="nothing was committed; the append restarts at the end of the lake",
            )
        position = position.merge(Position.at(part.end, part.partition))
    return position
