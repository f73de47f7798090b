"""The threads of a running stream: its append, which is restarted, and one for each lane; they are joined before what
they use is closed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from headrace.disk import disk_full, from_system, is_disk_full
from headrace.errors import FencedError, HeadraceError, JavaEndedError, NotReadyError
from headrace.spark.failures import one_line

if TYPE_CHECKING:
    from headrace.lake.append import Append


RESTARTS_S = (0.5, 1, 2, 5, 10)  # pauses before a failed append starts again
QUIET_RESTARTS = 3  # an append that fails only for lack of time is reported after so many

supervisor_log = structlog.get_logger("headrace.pipeline")


class AppendSupervisor:
    """Starts the append of one stream, and starts it again after each failure, with growing pauses."""

    def __init__(self, stream: str, append: Append) -> None:
        self._stream = stream
        self._append = append
        self.error: str | None = None  # why the append does not run
        self.restarting: threading.Thread | None = None
        self._closing = threading.Lock()  # held while the append starts: `close` waits for it
        self._closed = False
        self._failures = 0
        self._restart_at = 0.0

    def start(self) -> None:
        """Start the append, unless Java is starting: then the next `check` does."""
        with self._closing, suppress(NotReadyError, JavaEndedError):
            if not self._closed and not self._append.is_active():
                self._append.start()

    def check(self) -> None:
        """Start the append again if it has ended. Raises FencedError if this process may not write any more."""
        append = self._append
        if self._closed or (self.restarting is not None and self.restarting.is_alive()):
            return
        if append.is_active():
            if self._failures and time.monotonic() > self._restart_at + RESTARTS_S[-1]:
                self.reset()
            return
        if isinstance(append.error, FencedError):
            raise append.error
        failed = not append.is_orphaned()
        if failed and time.monotonic() < self._restart_at:
            return
        # In a thread of its own: on a busy machine this takes seconds, and the heartbeat does not wait for it.
        self.restarting = threading.Thread(
            target=self._restart, args=(failed,), name=f"append {self._stream}", daemon=True
        )
        self.restarting.start()

    def reset(self) -> None:
        """Forget earlier failures: events are appended again."""
        self._failures, self.error = 0, None

    def retry_now(self) -> None:
        """End the pause before the next start: what made the append fail may be gone."""
        self._restart_at = 0.0

    def close(self) -> None:
        """From now on start nothing; the append itself is stopped by the caller."""
        with self._closing:
            self._closed = True

    def _restart(self, failed: bool) -> None:
        try:
            if failed:
                self._note_failure()
            self.start()
        except Exception as error:
            if self._append.is_orphaned():
                return  # Java ended meanwhile
            self.error = one_line(from_system(error) or error if isinstance(error, OSError) else error)
            supervisor_log.error("append cannot start", stream=self._stream, error=self.error)

    def _note_failure(self) -> None:
        failure = self._append.failure() or "the append query ended"
        if self._closed:
            return
        supervisor_log.error("append failed", stream=self._stream, error=failure, restarts=self._failures)
        if not self._append.failed_transiently or self._failures >= QUIET_RESTARTS:
            self.error = failure
        self._restart_at = time.monotonic() + RESTARTS_S[min(self._failures, len(RESTARTS_S) - 1)]
        self._failures += 1


IDLE_S = 5.0  # how often an idle lane looks for stalled versions to retry
RETRY_S = 1.0  # delay before a failed step is retried

lane_log = structlog.get_logger("headrace.lane")


class Lane:
    """Runs one of the two lanes of a stream until it is stopped. Failures are logged and retried."""

    def __init__(
        self,
        name: str,
        stream: str,
        run_once: Callable[[], bool],
        on_progress: Callable[[], None],
        data: Path,
    ) -> None:
        """`run_once` does some work and returns whether there was any; a full disk is reported for folder `data`."""
        self._name = name
        self._stream = stream
        self._run_once = run_once
        self._on_progress = on_progress
        self._data = data
        self._news = threading.Event()
        self._stopping = False
        self.error: str | None = None
        self.last_ms: float | None = None  # duration of the last `run_once` that had work
        self.thread = threading.Thread(target=self._run, name=f"{name} {stream}", daemon=True)

    def wake(self) -> None:
        """Look for work now."""
        self._news.set()

    def stop(self) -> None:
        """Stop after the current `run_once`."""
        self._stopping = True
        self._news.set()

    def _run(self) -> None:
        while not self._stopping:
            self._news.clear()
            try:
                while self._work():
                    self._on_progress()
                self.error = None
            except (NotReadyError, JavaEndedError):
                self._news.wait(RETRY_S)  # Java is restarting
                continue
            except HeadraceError as error:
                self.error = str(error)
                lane_log.error("maintain failed", stream=self._stream, lane=self._name, error=self.error)
            except Exception as error:  # from Spark: the next round retries
                if not self._stopping:
                    full = disk_full("views cannot be updated", self._data) if is_disk_full(error) else None
                    self.error = one_line(full or error)
                    lane_log.exception("maintain failed", stream=self._stream, lane=self._name)
            self._news.wait(RETRY_S if self.error else IDLE_S)

    def _work(self) -> bool:
        start_s = time.monotonic()
        worked = not self._stopping and self._run_once()
        if worked:
            self.last_ms = (time.monotonic() - start_s) * 1000
        return worked


threads_log = structlog.get_logger("headrace.threads")


def join_all(threads: Iterable[threading.Thread | None], within_s: float) -> bool:
    """Wait until these have ended, so many seconds at most; whether they have."""
    deadline = time.monotonic() + within_s
    late = []
    for thread in threads:
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
            late += [thread.name] if thread.is_alive() else []
    if late:
        threads_log.warning("threads did not end in time", threads=late, within_s=within_s)
    return not late
