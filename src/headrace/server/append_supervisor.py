"""Keeps the append of a stream running: an append that ended is started again where the lake ends."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from headrace.disk import from_system
from headrace.errors import FencedError, JavaEndedError, NotReadyError
from headrace.spark.failures import one_line

if TYPE_CHECKING:
    from headrace.lake.append import Append

RESTARTS_S = (0.5, 1, 2, 5, 10)  # pauses before a failed append starts again
QUIET_RESTARTS = 3  # an append that fails only for lack of time is reported after so many

log = structlog.get_logger("headrace.pipeline")


class AppendSupervisor:
    """Starts the append of one stream, and starts it again after each failure, with growing pauses."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self.append: Append | None = None
        self.error: str | None = None  # why the append does not run
        self.restarting: threading.Thread | None = None
        self._closing = threading.Lock()  # held while the append starts: `close` waits for it
        self._closed = False
        self._failures = 0
        self._restart_at = 0.0

    def start(self, append: Append) -> None:
        """Start the append for the first time."""
        self._start(append)
        self.append = append  # last: `check` would start it once more

    def check(self) -> None:
        """Start the append again if it has ended. Raises FencedError if this process may not write any more."""
        append = self.append
        if append is None or self._closed or (self.restarting is not None and self.restarting.is_alive()):
            return
        if append.is_active():
            if self._failures and time.monotonic() > self._restart_at + RESTARTS_S[-1]:
                self.reset()
            return
        if isinstance(append.error, FencedError):
            raise append.error
        if not append.is_orphaned() and time.monotonic() < self._restart_at:
            return
        # In a thread of its own: on a busy machine this takes seconds, and the heartbeat does not wait for it.
        self.restarting = threading.Thread(
            target=self._restart, args=(append,), name=f"append {self._stream}", daemon=True
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

    def _restart(self, append: Append) -> None:
        try:
            if not append.is_orphaned():
                self._note_failure(append)
            self._start(append)
        except Exception as error:
            if append.is_orphaned():
                return  # Java ended meanwhile
            self.error = one_line(from_system(error) or error if isinstance(error, OSError) else error)
            log.error("append cannot start", stream=self._stream, error=self.error)

    def _note_failure(self, append: Append) -> None:
        failure = append.failure() or "the append query ended"
        if self._closed:
            return
        log.error("append failed", stream=self._stream, error=failure, restarts=self._failures)
        if not append.failed_transiently or self._failures >= QUIET_RESTARTS:
            self.error = failure
        self._restart_at = time.monotonic() + RESTARTS_S[min(self._failures, len(RESTARTS_S) - 1)]
        self._failures += 1

    def _start(self, append: Append) -> None:
        """Start the append, unless Java is starting: then the next `check` does."""
        with self._closing, suppress(NotReadyError, JavaEndedError):
            if not self._closed:
                append.start()
