"""The DuckDB file behind a store: its connections, what its failures mean, and opening it again after one.

A write that a full disk refuses at a bad moment makes DuckDB declare the whole database invalid for this
process. What is in the file is right nevertheless: it is opened again, and `applied_to` says how far it is.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb

from headrace.errors import CorruptionError, FencedError, HeadraceError, HeldError, UnavailableError, WorkspaceError
from headrace.failures import disk_full, is_disk_full
from headrace.store.sketches import register_functions

FORMAT = 1  # of the file; a newer one is refused
SETTINGS = {
    "threads": "1",
    "memory_limit": "1GB",
    "checkpoint_threshold": "64MB",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
VERSIONS = """
CREATE TABLE IF NOT EXISTS versions (
  view VARCHAR NOT NULL, number BIGINT NOT NULL, definition VARCHAR NOT NULL, fingerprint VARCHAR NOT NULL,
  patience_ms BIGINT NOT NULL, applied_to BIGINT NOT NULL, position BIGINT NOT NULL, newest_us BIGINT,
  applied_at_us BIGINT NOT NULL, serving BOOLEAN NOT NULL, stalled VARCHAR, fence BIGINT NOT NULL)
"""
DAMAGED = ".damaged"  # a note beside a file that was found damaged while it was in use
_CORRUPT = re.compile(r"corrupt|checksum|serializ|not a valid duckdb|read enough bytes", re.IGNORECASE)
_FATAL = (duckdb.FatalException, duckdb.InternalException)


class Database:
    """One file, opened by `fence`; used by any number of threads, one of which may write."""

    def __init__(self, path: Path, fence: int, *, read_only: bool) -> None:
        self.path = path
        self._fence = fence
        self._read_only = read_only
        self._gate = threading.Condition()
        self._users = 0
        self._invalid = False
        self._connect()

    def _connect(self) -> None:
        self._spare: list[duckdb.DuckDBPyConnection] = []
        self._root = _connect(self.path, self._read_only)  # runs nothing but set-up: others are made from it
        try:
            run(self._root, "SET GLOBAL TimeZone = 'UTC'")
            register_functions(self._root)
            _check_format(self._root, self.path)
            if not self._read_only:
                _take_over(self._root, self._fence)
            self.writer = self._root.cursor()
        except duckdb.Error as error:
            self._root.close()
            raise self.explain(error) or error from error
        except BaseException:
            self._root.close()
            raise

    @contextmanager
    def use(self) -> Iterator[None]:
        """Around everything that touches a connection. Opens the file again if it must be."""
        with self._gate:
            while self._invalid and self._users:
                self._gate.wait()
            if self._invalid:
                self._reopen()
            self._users += 1
        try:
            yield
        except (duckdb.Error, OSError) as error:
            self._invalid = self._invalid or isinstance(error, _FATAL) or "invalidated" in str(error)
            explained = self.explain(error)
            if explained is None:
                raise
            raise explained from error
        finally:
            with self._gate:
                self._users -= 1
                self._gate.notify_all()

    @contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of one's own, inside `use`."""
        try:
            connection = self._spare.pop()
        except IndexError:
            connection = self._root.cursor()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._spare.append(connection)

    def explain(self, error: Exception) -> HeadraceError | None:
        """What a failure of the file means; None if it is one of the query."""
        if is_disk_full(error):
            return disk_full("views cannot be brought on", self.path)
        if isinstance(error, OSError):
            return None
        if _CORRUPT.search(str(error)) and not isinstance(error, duckdb.InvalidInputException):
            with suppress(OSError):
                self.path.with_name(self.path.name + DAMAGED).touch()
            return corrupt(self.path, error)
        if isinstance(error, _FATAL):
            first = str(error).splitlines()[0]
            return UnavailableError(f"store {self.path} failed: {first}", fix="it is opened again by itself; try again")
        return None

    def _reopen(self) -> None:
        self.close()
        self._connect()
        self._invalid = False

    def close(self) -> None:
        """Let go of the file."""
        for connection in [*self._spare, self.writer, self._root]:
            with suppress(duckdb.Error):
                connection.close()
        self._spare.clear()


def run(connection: duckdb.DuckDBPyConnection, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    """Run and fetch to the end: an unfinished result would block its connection."""
    rows: list[tuple[Any, ...]] = connection.execute(query, parameters).fetchall()
    return rows


def corrupt(path: Path, error: Exception) -> CorruptionError:
    """The error for a file that cannot be read."""
    return CorruptionError(
        f"store {path} cannot be read",
        found=str(error).splitlines()[0],
        fix="start `headrace up` anew: it sets the file aside and computes the views again from the lake",
    )


def _connect(path: Path, read_only: bool) -> duckdb.DuckDBPyConnection:
    if read_only and not path.exists():
        raise WorkspaceError(
            f"store {path} does not exist", expected="a file that `headrace up` made", fix="start `headrace up` once"
        )
    try:
        return duckdb.connect(str(path), read_only=read_only, config=SETTINGS)
    except duckdb.Error as error:
        if is_disk_full(error):
            raise disk_full("views cannot be opened", path) from error
        said = str(error).splitlines()[0]
        if isinstance(error, duckdb.IOException) and "lock" in str(error).lower():
            raise HeldError(
                f"store {path} is held by another process",
                found=said,
                fix="ask the server that runs in this workspace, or stop it first",
            ) from error
        if isinstance(error, duckdb.IOException) and ("Permission denied" in said or "Read-only" in said):
            raise WorkspaceError(
                f"store {path} cannot be opened", found=said, fix="permit this user to write there"
            ) from error
        raise corrupt(path, error) from error


def _check_format(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    there = run(connection, "SELECT 1 FROM duckdb_tables() WHERE table_name = 'store_format'")
    found = run(connection, "SELECT max(version) FROM store_format")[0][0] if there else None
    if found is not None and found > FORMAT:
        raise WorkspaceError(
            f"store {path} was written by a newer Headrace",
            found=f"format {found}",
            expected=f"at most {FORMAT}",
            fix="install that version again, or move the file away: views are then computed again from the lake",
        )


def _take_over(connection: duckdb.DuckDBPyConnection, fence: int) -> None:
    run(connection, VERSIONS)
    run(connection, "CREATE TABLE IF NOT EXISTS store_format (version BIGINT NOT NULL)")
    run(connection, f"INSERT INTO store_format SELECT {FORMAT} WHERE NOT EXISTS (FROM store_format)")
    ((highest,),) = run(connection, "SELECT max(fence) FROM versions")
    if highest is not None and highest > fence:
        raise FencedError(
            "the store was taken over by a later process",
            found=f"fence {highest}",
            expected=f"at most {fence}, the fence of this process",
            fix="nothing was changed; stop this process",
        )
    run(connection, "UPDATE versions SET fence = ?", [fence])
