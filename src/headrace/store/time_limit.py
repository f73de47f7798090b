"""Ends what takes longer than it may, such as a question to a view: its queries are interrupted, its loops check."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from headrace.errors import HeadraceError, UnavailableError

LOOK_EVERY_S = 0.05
IDLE_LOOKS = 100  # without work, after which nothing looks any more


class _Work:
    """Work that runs within a limit, and how to interrupt what it waits for."""

    def __init__(self, limit: TimeLimit, ends_at: float) -> None:
        self.limit = limit
        self.ends_at = ends_at
        self.is_late = False
        self.lock = threading.Lock()
        self.interrupts: list[Callable[[], None]] = []

    def interrupt(self) -> None:
        """Interrupt it. Repeated until it has ended: an interrupt between two queries has no effect."""
        self.is_late = True
        with self.lock:  # else it could reach the next user of a connection
            for interrupt in self.interrupts:
                interrupt()


_current: ContextVar[_Work | None] = ContextVar("work within a limit", default=None)


class TimeLimit:
    """Limits the time of each piece of work, and ends all of them when the server stops. Thread-safe."""

    def __init__(self, seconds: float, late: Callable[[float], HeadraceError]) -> None:
        self._seconds = seconds
        self._late = late  # makes the error for work that takes longer than so many seconds
        self._working: set[_Work] = set()
        self._lock = threading.Lock()
        self._watching = False
        self._stopping = False

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Guard the work; raises the error if it is late."""
        work = _Work(self, time.monotonic() + self._seconds)
        token = _current.set(work)
        with self._lock:
            self._working.add(work)
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="time-limit", daemon=True).start()
        try:
            yield
        except HeadraceError:
            raise
        except Exception as error:
            if work.is_late:
                raise self._error() from error
            raise
        finally:
            with self._lock:
                self._working.discard(work)
            _current.reset(token)

    def stop(self) -> None:
        """End all work now, and whatever begins from now on."""
        self._stopping = True

    def _watch(self) -> None:
        """Look at all work again and again. One thread does: a timer for each question would cost more."""
        idle = 0
        while idle < IDLE_LOOKS:
            time.sleep(LOOK_EVERY_S)
            now = time.monotonic()
            with self._lock:
                late = [work for work in self._working if self._stopping or work.ends_at <= now]
                idle = 0 if self._working else idle + 1
                self._watching = idle < IDLE_LOOKS
            for work in late:
                work.interrupt()

    def _error(self) -> HeadraceError:
        if self._stopping:
            return UnavailableError("the server is stopping", fix="retry when it runs")
        return self._late(self._seconds)


def check_time() -> None:
    """Raise the error if the current work is late; for loops that wait for nothing."""
    work = _current.get()
    if work is not None and work.is_late:
        raise work.limit._error()


@contextmanager
def interruptible(interrupt: Callable[[], None]) -> Iterator[None]:
    """Guard a wait of the current work, which this function ends early."""
    work = _current.get()
    if work is None:
        yield
        return
    check_time()
    with work.lock:
        work.interrupts.append(interrupt)
    try:
        yield
    finally:
        with work.lock:
            work.interrupts.remove(interrupt)
