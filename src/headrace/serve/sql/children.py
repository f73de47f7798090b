"""The processes that run SQL of users: one started ahead, a limited number at a time, each with a deadline."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import structlog

from headrace.errors import HeadraceError, OverloadError, SqlError, SqlLimitError, UnavailableError
from headrace.serve.sql.child_wire import JSON, BrokenFrameError, Wire
from headrace.store.time_limit import TimeLimit, interruptible
from headrace.workspace.settings import Settings

START_S = 30.0  # for an interpreter and its libraries on a busy machine
SPARE_ENDS_S = 2.0  # how long `close` waits for the spare that is starting
MOST_BYTES = 64 << 20  # of a result
PACKAGES = ("headrace", "duckdb", "pyarrow", "numpy", "orjson", "datasketches", "xxhash")
LATE = (-signal.SIGALRM, -signal.SIGXCPU)  # the child's own limits of time

log = structlog.get_logger("headrace.serve.sql")


class Child:
    """A child process without the server's environment and open files, in a folder that is removed once it runs."""

    def __init__(self) -> None:
        parent_end, child_end = socket.socketpair()
        self.late = False
        self.again = False  # it has run no query yet and can be used again
        self.wire = Wire(parent_end, 2 * MOST_BYTES)
        with child_end, tempfile.TemporaryDirectory(prefix="headrace-sql-") as folder:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-s", "-m", "headrace.serve.sql.child"],
                stdin=child_end.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is handled by the parent
            )
            child_end.close()
            self._wait_until_ready(parent_end)

    def _wait_until_ready(self, parent_end: socket.socket) -> None:
        parent_end.settimeout(START_S)
        try:
            self.wire.expect(JSON)
        except (OSError, BrokenFrameError) as error:
            raise HeadraceError(
                "the process for SQL cannot start",
                found=_name(self.exit_code()),
                fix="check the free memory",
            ) from error
        parent_end.settimeout(None)

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def stop_late(self) -> None:
        """Kill it at its deadline; its socket is then closed for the waiting thread."""
        self.late = True
        self.kill()

    def kill(self) -> None:
        """Kill the process, from any thread; `end` releases its resources."""
        self._process.kill()

    def end(self) -> None:
        """Kill the process and wait until it has ended."""
        self.wire.socket.close()
        self.kill()
        self._process.wait()

    def exit_code(self) -> int:
        """The exit code of a child that has ended unexpectedly."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)  # it is about to end: its socket is already closed
        self.end()
        code = int(self._process.returncode)
        self.late = self.late or code in LATE
        return code


class Children:
    """Lends a child process for a query, and keeps a spare one ready."""

    def __init__(self, *, at_once: int, memory_mb: int, timeout_s: float) -> None:
        self.memory_mb = memory_mb
        self.timeout_s = timeout_s
        self._limit = TimeLimit(timeout_s, _late)
        self._at_once = at_once
        self._free = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._spare: Child | None = None
        self._lent: set[Child] = set()
        self._starting = False
        self._starter: threading.Thread | None = None
        self._closed = False

    @classmethod
    def of(cls, settings: Settings) -> Children:
        """With the limits of the settings."""
        return cls(at_once=settings.sql_at_once, memory_mb=settings.sql_memory_mb, timeout_s=settings.sql_timeout_s)

    def prepare(self) -> None:
        """Start a spare child in the background, unless there is one."""
        with self._lock:
            if self._closed or self._starting or self._spare is not None:
                return
            self._starting = True
            self._starter = threading.Thread(target=self._start_spare, name="sql-spare", daemon=True)
            self._starter.start()

    def stop(self) -> None:
        """End all queries, also those that begin from now on. It does not wait for them."""
        self._closed = True
        self._limit.stop()

    def close(self) -> None:
        """End the spare process and those that run queries."""
        self.stop()
        with self._lock:
            spare, self._spare = self._spare, None
            lent = list(self._lent)
            starter = self._starter
        if starter is not None:
            starter.join(SPARE_ENDS_S)  # it ends the process that it was starting
        for child in lent:
            child.kill()
        if spare is not None:
            spare.end()

    @contextlib.contextmanager
    def lend(self) -> Iterator[Child]:
        """A child for one query, killed at the deadline; raises the error for a child that failed."""
        if not self._free.acquire(blocking=False):
            raise OverloadError(
                "too many SQL queries at once",
                found=f"{self._at_once} that run",
                fix="try again in a moment, or raise the setting sql_at_once",
            )
        try:
            child = self._take()
            self._lent.add(child)
            try:
                with self._limit.watch(), interruptible(child.stop_late):
                    yield child
            except (OSError, BrokenFrameError) as error:
                raise self._failure(child, child.exit_code()) from error
            finally:
                self._lent.discard(child)
                if not self._keep(child):
                    child.end()
        finally:
            self._free.release()

    def _take(self) -> Child:
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None and spare.alive():
            return spare
        return Child()

    def _keep(self, child: Child) -> bool:
        """Keep a child that has run no query as the spare one, if there is none."""
        with self._lock:
            reusable = child.again and not child.late and not self._closed and self._spare is None
            if reusable:
                child.again, self._spare = False, child
            return reusable

    def _start_spare(self) -> None:
        try:
            child = Child()
        except (HeadraceError, OSError) as error:
            log.warning("no spare process for SQL", error=str(error))
            child = None
        with self._lock:
            self._starting = False
            if not self._closed and self._spare is None and child is not None:
                self._spare, child = child, None
        if child is not None:
            child.end()

    def _failure(self, child: Child, code: int) -> HeadraceError:
        """The error for a child that ended unexpectedly."""
        if self._closed:
            return UnavailableError("the server is stopping", fix="retry when it runs")
        if child.late:
            return _late(self.timeout_s)
        log.warning("a process for SQL broke off", code=code)
        if code >= 0:
            return SqlError("the query crashed its process", found=_name(code), fix="please report it")
        return self.out_of_memory(f"its process ended with {_name(code)}")

    def out_of_memory(self, found: str | None = None) -> SqlLimitError:
        """The error for a query that exceeds its memory limit."""
        return SqlLimitError(
            f"the query needs more memory than the {self.memory_mb:,} MB that it may take",
            found=found,
            fix="ask for less at a time, or raise the setting sql_memory_mb",
        )


def _late(timeout_s: float) -> SqlLimitError:
    return SqlLimitError(
        "the query was stopped at its deadline",
        found=f"no result after {timeout_s:g} s",
        fix="ask for less at a time, or raise the setting sql_timeout_s",
    )


def _name(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _environment() -> dict[str, str]:
    """Environment variables of a child: to find its libraries, and to limit the memory that it maps."""
    specs = [importlib.util.find_spec(package) for package in PACKAGES]
    folders = {str(Path(spec.origin).parents[1]): None for spec in specs if spec and spec.origin}
    return {
        "PYTHONPATH": os.pathsep.join(folders),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
        "MALLOC_ARENA_MAX": "2",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
