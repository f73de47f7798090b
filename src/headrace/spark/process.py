"""The Spark session of a server: one at a time, replaced when Java ends or it can run no more tasks."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from headrace.errors import HeadraceError, StartingError
from headrace.spark.failures import one_line
from headrace.spark.session import JavaPriorities, executors, is_alive, java_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.2
BACKOFF_S = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)  # before a start, by the number of recent starts
ENDS_WITHIN_S = 3.0
LOOK_EVERY = 5  # polls between two looks into the session
NO_EXECUTORS_S, GIVEN_UP_S = 30.0, 120.0  # without executors: a problem is reported, then the session is replaced
CALM_S = 10.0  # a session that ran for longer than this does not count as a recent start

log = structlog.get_logger("headrace.spark")


class SparkProcess:
    """Keeps a session running. `run` is the body of a thread; everything else may be called from any thread."""

    def __init__(
        self,
        start: Callable[[int], SparkSession],
        on_start: Callable[[SparkSession], None],
        stopped: threading.Event,
    ) -> None:
        """`start` makes the session of a given start, counted from 0; `on_start` runs in a thread of its own."""
        self.without_executors_s = (NO_EXECUTORS_S, GIVEN_UP_S)
        self._start = start
        self._on_start = on_start
        self._stopped = stopped
        self._session: SparkSession | None = None
        self.starting: threading.Thread | None = None  # runs `on_start`, for the session that was started last
        self.starts = 0  # that succeeded
        self.failed_starts = 0  # since the last one that succeeded
        self.trouble: str | None = None  # why there is no session now, after there was one, or why it cannot run tasks

    @property
    def current(self) -> SparkSession | None:
        """The session, if Java runs."""
        return self._session

    def session(self) -> SparkSession:
        """The session; StartingError while Java starts."""
        session = self._session
        if session is None:
            raise StartingError(self.trouble or "Spark is starting", fix="retry in some seconds")
        return session

    def run(self) -> None:
        """Start Spark, and restart it each time that its session ends. Raises only if the first start fails."""
        recent = 0
        attempts = 0
        while not self._stopped.wait(BACKOFF_S[min(recent, len(BACKOFF_S) - 1)]):
            used_s = 0.0
            try:
                session = self._start(attempts)
            except Exception as error:
                if not self.starts:
                    raise
                self._note_failed_start(error)
            else:
                start_s = time.monotonic()
                self._serve(session)
                used_s = time.monotonic() - start_s
            attempts += 1
            recent = 1 if used_s > CALM_S else recent + 1

    def stop(self) -> None:
        """Stop the running session, if there is one."""
        session, self._session = self._session, None
        if session is not None and is_alive(session):
            session.stop()

    def cancel_all_jobs(self) -> None:
        """Cancel the jobs of the session."""
        session = self._session
        if session is not None and is_alive(session):
            session.sparkContext.cancelAllJobs()

    def _note_failed_start(self, error: Exception) -> None:
        reason = str(error) if isinstance(error, HeadraceError) else one_line(error)
        self.failed_starts += 1
        self.trouble = f"Spark cannot be restarted: {reason}; Headrace retries automatically"
        log.error("spark cannot be restarted", error=reason)

    def _serve(self, session: SparkSession) -> None:
        """Offer a session until it ends or the server stops."""
        if self._stopped.is_set():
            session.stop()
            return
        self._session, self.trouble, self.failed_starts = session, None, 0
        self.starts += 1
        self.starting = threading.Thread(target=self._on_start, args=(session,), name="session", daemon=True)
        self.starting.start()
        java = java_process(session)
        priorities = JavaPriorities(java.pid) if java is not None else None
        executors, polls = _Executors(session), 0
        while not self._stopped.wait(POLL_S):
            if priorities is not None:
                priorities.lower()
            polls += 1
            ended = None
            if polls % LOOK_EVERY == 0:
                ended = self._look(session, executors)
            if ended is not None and java is not None:
                with suppress(subprocess.TimeoutExpired):  # Java that ends stops its context first
                    java.wait(ENDS_WITHIN_S)
            if java is not None and (code := java.poll()) is not None:
                ended = f"its Java process ended ({_how_it_ended(code)})"
            if ended is not None and not self._stopped.is_set():
                self._session = None
                self.trouble = f"Spark is restarting: {ended}"
                log.error("spark ended", how=ended, pid=java.pid if java else None, starts=self.starts)
                from headrace.spark.build import discard  # loads PySpark: the server accepts events first

                discard()
                return

    def _look(self, session: SparkSession, executors: _Executors) -> str | None:
        """Why a session whose Java process runs cannot be used any more, if so."""
        if not is_alive(session):
            return "its context was stopped"
        without_s = executors.look()
        reported_s, given_up_s = self.without_executors_s
        if without_s >= given_up_s:
            return f"it had no executors for {without_s:.0f} s"
        waiting = f"Spark has had no executors for {without_s:.0f} s: its jobs wait; a new session follows"
        self.trouble = waiting if without_s >= reported_s else None
        return None


class _Executors:
    """Watches whether a session has executors. Without them its jobs wait forever and report no error."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._seen_s = time.monotonic()  # when there was one

    def look(self) -> float:
        """For how long it has had none."""
        with suppress(Exception):  # of Py4J, which have no common base: Java is ending, and the next poll finds out
            if executors(self._session):
                self._seen_s = time.monotonic()
        return time.monotonic() - self._seen_s


def _how_it_ended(code: int) -> str:
    if code >= 0:
        meaning = {3: "out of memory", 50: "uncaught error", 52: "out of memory", 137: "SIGKILL", 143: "SIGTERM"}
        return f"exit code {code}" + (f", {meaning[code]}" if code in meaning else "")
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
