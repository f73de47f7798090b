"""One sink at work: a thread that reads its source, writes to its destination, and keeps how far it has come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from headrace.define.connectors import CONNECTORS, records_progress
from headrace.define.model import Sink
from headrace.deliver.notifier import Notifier
from headrace.deliver.sinks.http_sink import RefusedError
from headrace.deliver.sinks.sink_feed import Feed
from headrace.deliver.sinks.sink_progress import SinkPlace, SinkProgress, forget_progress, write_progress
from headrace.deliver.sinks.sink_writer import SinkBatch, SinkWriter
from headrace.errors import HeadraceError, NotReadyError
from headrace.faults import fault_point
from headrace.secrets import without_passwords
from headrace.spark.failures import one_line
from headrace.store.store_contract import Store

LOOK_S = 1.0  # how often a sink looks for changes, whatever it is notified of
PAUSES_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # before the next attempt, after so many failures in a row
REFUSED_PAUSE_S = 60.0  # after a request that the destination says is wrong
KEEP_EVERY_S = 1.0  # the progress of a sink whose destination records it, too

log = structlog.get_logger("headrace.deliver.sinks")


@dataclass(frozen=True)
class SinkState:
    """What a sink does at the moment, and how far it is behind."""

    progress: SinkProgress
    state: str  # running, waiting, stalled, paused
    reason: str | None
    lag_s: float
    behind_commits: int | None
    retry_in_s: float | None


class SinkRunner:
    """Runs a sink until it is stopped. What fails stops only this sink, until it succeeds again."""

    def __init__(
        self,
        progress: SinkProgress,
        feed: Feed,
        open_writer: Callable[[Sink], SinkWriter],
        store: Store,
        after: SinkRunner | None = None,
    ) -> None:
        """`after` ran the sink by its definition before: it has to end first, and this one goes on from there."""
        self._progress = progress
        self._feed = feed
        self._open_writer = open_writer
        self._store = store
        self._after = after
        self._dropping = False
        self._lock = threading.Lock()  # of the progress
        self._notifier = Notifier()
        self._stopping = threading.Event()
        self._failures = 0
        self._stalled: str | None = None
        self._waiting: str | None = None
        self._retry_at: float | None = None
        self._current_at = time.time() if progress.sent_at_us is None else progress.sent_at_us / 1e6
        self._kept_at = 0.0
        self._unkept = False  # whether the progress here is later than that in the store
        self._thread = threading.Thread(target=self._run, name=f"sink {progress.sink.name}", daemon=True)

    @property
    def sink(self) -> Sink:
        """Its definition."""
        return self._progress.sink

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def wake(self) -> None:
        """Look for changes now."""
        self._notifier.notify()

    def stop(self) -> None:
        """Have it end; `join` waits for that."""
        self._stopping.set()
        self._notifier.notify()

    def drop(self) -> None:
        """Have it end, and remove what the store and the destination know of its progress."""
        self._dropping = True
        self.stop()

    def join(self, timeout_s: float | None = None) -> bool:
        """Whether it has ended."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def pause(self, paused: bool) -> None:
        """Pause after the current batch, or continue. The state lasts over restarts."""
        with self._lock:
            self._progress = replace(self._progress, paused=paused)
            write_progress(self._store, self._progress)
        self._notifier.notify()

    def retry(self) -> None:
        """Try again now what has failed."""
        self._retry_at = None
        self._notifier.notify()

    def state(self) -> SinkState:
        """What it does at the moment."""
        progress, stalled, waiting = self._progress, self._stalled, self._waiting
        retry_at = self._retry_at  # read last: it is set before a sink says that it is stalled
        name, reason = "running", None
        if progress.paused:
            name = "paused"
        elif stalled:
            name, reason = "stalled", stalled
        elif waiting:
            name, reason = "waiting", waiting
        try:
            lag = self._feed.lag(progress.place.cursor)
        except HeadraceError:
            lag = None
        lag_s = 0.0 if lag == 0 and not reason else max(0.0, time.time() - self._current_at)
        wait_s = None if retry_at is None else max(0.0, retry_at - time.monotonic())
        return SinkState(progress, name, reason, round(lag_s, 3), lag, wait_s)

    # The thread

    def _run(self) -> None:
        self._take_over()
        if not self._dropping:
            self._feed.follow()
        while not self._stopping.is_set():
            if self._progress.paused:
                self._notifier.wait(self._notifier.count, LOOK_S)
                continue
            try:
                self._send_all()
            except NotReadyError as error:  # the view is being built
                self._waiting = str(error)
                self._notifier.wait(self._notifier.count, LOOK_S)
            except Exception as error:
                if not self._stopping.is_set():
                    self._stall(error)
                    self._wait_to_retry()
        # It is fenced, or the store is full or closed: the next process repeats some batches.
        with suppress(Exception):
            if self._dropping:
                self._forget()
            else:
                write_progress(self._store, self._progress)

    def _take_over(self) -> None:
        """Wait until the previous runner has ended, and continue where it was."""
        before, self._after = self._after, None
        if before is None:
            return
        before.join()
        if not before._dropping:
            with self._lock:
                paused = self._progress.paused
                self._progress = replace(before._progress.with_definition(self.sink), paused=paused)

    def _forget(self) -> None:
        try:
            writer = self._open_writer(self.sink)
            try:
                writer.forget()
            finally:
                writer.close()
        except Exception as error:
            log.warning("what the destination records of a dropped sink stays", sink=self.sink.name, error=_why(error))
        self._feed.unfollow()
        forget_progress(self._store, self.sink.name)

    def _send_all(self) -> None:
        """Send until something fails, or it is paused or stopped."""
        writer = self._open_writer(self.sink)
        try:
            self._take_place(writer.resume())
            while not self._stopping.is_set() and not self._progress.paused:
                known = self._notifier.count
                batch = self._feed.after(self._progress.place.cursor)
                if batch is None:
                    self._succeeded()
                    self._current_at = time.time()
                    self._keep(self._progress)
                    self._notifier.wait(known, LOOK_S)
                else:
                    self._send(writer, batch)
        finally:
            writer.close()

    def _take_place(self, recorded: str | None) -> None:
        """Go on from where the destination is, if it records that; an earlier batch may just not be kept here."""
        place = self._progress.place
        if not records_progress(self.sink):
            return
        recorded_place = SinkPlace.from_text(recorded)
        if recorded_place is None or recorded_place.identity != place.identity:
            # Nothing is there, or something else: all is sent, though the store may say that some was.
            place = replace(place, cursor=None)
        elif recorded_place.batch > place.batch:
            place = recorded_place
        with self._lock:
            self._progress = replace(self._progress, place=place)

    def _send(self, writer: SinkWriter, batch: SinkBatch) -> None:
        before = self._progress.place
        if before.cursor is None and before.batch and batch.snapshot:
            batch = replace(batch, restarted=True)  # it starts over: the destination has rows from before
        place = replace(before, batch=before.batch + 1, cursor=batch.cursor)
        progress = replace(self._progress, place=place)
        if batch.changes or batch.restarted or (writer.unfinished and not batch.more):
            writer.write(replace(batch, cursor=place.to_text()))
            progress = replace(
                progress,
                rows=progress.rows + len(batch.changes),
                batches=progress.batches + 1,
                sent_at_us=time.time_ns() // 1000,
            )
        fault_point("sink.before_progress")
        self._keep(progress)
        fault_point("sink.after_progress")
        self._succeeded()
        if not batch.more:
            self._current_at = time.time()

    def _keep(self, progress: SinkProgress) -> None:
        """Keep the progress in the store: always if the destination records none, else from time to time."""
        with self._lock:
            progress = replace(progress, paused=self._progress.paused)
            self._progress, self._unkept = progress, self._unkept or progress != self._progress
            soon = records_progress(self.sink) and time.monotonic() < self._kept_at + KEEP_EVERY_S
            if soon or not self._unkept:
                return
            write_progress(self._store, progress)
            self._kept_at, self._unkept = time.monotonic(), False
        self._feed.passed(progress.place.cursor)

    def _succeeded(self) -> None:
        if self._stalled:
            log.info("a sink goes on", sink=self.sink.name)
        self._failures, self._stalled, self._waiting, self._retry_at = 0, None, None, None

    def _stall(self, error: Exception) -> None:
        reason = _why(error)
        known = reason == self._stalled
        with self._lock:
            self._progress = replace(self._progress, errors=self._progress.errors + 1)
        pause_s = PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]
        asked_s = getattr(error, "retry_after_s", None)
        if isinstance(error, RefusedError):
            pause_s = REFUSED_PAUSE_S
        if asked_s is not None:
            pause_s = asked_s
        self._failures += 1
        self._retry_at = time.monotonic() + pause_s
        self._stalled, self._waiting = reason, None
        if not known:
            log.error("a sink is stalled", sink=self.sink.name, error=reason, next_attempt_s=pause_s)

    def _wait_to_retry(self) -> None:
        while not self._stopping.is_set():
            retry_at = self._retry_at
            if retry_at is None or time.monotonic() >= retry_at:
                return
            self._notifier.wait(self._notifier.count, min(LOOK_S, retry_at - time.monotonic()))


def _why(error: Exception) -> str:
    return without_passwords(str(error) if isinstance(error, HeadraceError) else one_line(error))


def rows_of(sink: Sink) -> int:
    """How many rows a batch of a sink has, at most."""
    option = CONNECTORS[sink.connector].option("batch.rows")
    assert option is not None, "every connector has it"
    return int(sink.get("batch.rows") or option.default or 1)
