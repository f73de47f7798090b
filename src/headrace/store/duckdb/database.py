"""The DuckDB file behind a store: its connections, what its failures mean, and opening it again after one.

A write that a full disk refuses at a bad moment makes DuckDB declare the database invalid for this
process. What is in the file is right nevertheless: it is opened again, and `applied_to` says how far it is.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from headrace.disk import disk_full, is_disk_full
from headrace.duckdb_connections import literal, open_duckdb, run
from headrace.errors import (
    CorruptionError,
    HeadraceError,
    HeldError,
    NewerFormatError,
    UnavailableError,
    WorkspaceError,
)
from headrace.store.duckdb.file_format import (
    FORMAT,
    REBUILD,
    check_format,
    show_as_current,
    stored_format,
    take_over,
)
from headrace.store.duckdb.merge_functions import MERGES, Functions
from headrace.store.time_limit import interruptible
from headrace.store.version import VersionId

open_database = partial(
    open_duckdb, memory="1GB", checkpoint_threshold="64MB"
)  # files are shared by equal settings only
MOST_STATEMENTS = 256  # that are kept parsed
DAMAGED = ".damaged"  # a note beside a file that was found damaged while it was in use
_CORRUPT = re.compile(r"corrupt|checksum|serializ|not a valid duckdb|read enough bytes", re.IGNORECASE)
_FATAL = (duckdb.FatalException, duckdb.InternalException)


class Database:
    """One file, opened by `fence`, and the batch tables; used by any number of threads, one of which may write."""

    def __init__(self, path: Path, batch_folder: Path, fence: int, *, read_only: bool) -> None:
        self.path = path
        self.batch_folder = batch_folder
        self._attaching = threading.Lock()
        self._fence = fence
        self.read_only = read_only
        self._gate = threading.Condition()
        self._turn = 0  # counts uses
        self._users: set[int] = set()  # the turns of those under way
        self._invalid = False
        self._connect()

    def _connect(self) -> None:
        self._spare: list[duckdb.DuckDBPyConnection] = []
        self._statements: dict[str, duckdb.Statement] = {}  # parsed, by their text
        self._attached: dict[str, str] = {}  # file of a batch table -> its name in SQL
        self.present: dict[VersionId, tuple[tuple[int, ...], int]] = {}  # of tables: commits, and rows with these
        self.corrections: dict[str, int] = {}  # in each batch table, by its file, as far as they were counted
        self._released: list[tuple[int, str]] = []  # files to go, with the last turn that may read them
        self._root = _connect(self.path, self.read_only)  # runs nothing but set-up: others are made from it
        try:
            # The rows of a key are spread over a speed table, and for each of them DuckDB would decompress 2,048
            # strings: a lookup in 200,000 rows then takes 4.0 ms instead of 1.5, for a file that is 13 % smaller.
            # As an option of the connection it has no effect.
            run(self._root, "SET GLOBAL disabled_compression_methods = 'dict_fsst'")
            self._functions: set[str] = set()  # those that were given to this database
            if not self.read_only:
                self.give(MERGES)  # here, so that a step need not ask whether it has them
            check_format(self._root, self.path, self.read_only)
            if not self.read_only:
                take_over(self._root, self._fence)
            self.writer = self._root.cursor()
        except duckdb.Error as error:
            self._root.close()
            raise self.explain(error) or error from error
        except BaseException:
            self._root.close()
            raise

    @contextmanager
    def use(self) -> Iterator[None]:
        """Guard the use of a connection. Opens the file again if necessary."""
        with self._gate:
            while self._invalid and self._users:
                self._gate.wait()
            if self._invalid:
                self._reopen()
            self._turn += 1
            turn = self._turn
            self._users.add(turn)
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
                self._users.discard(turn)
                self._gate.notify_all()
                leaving = self._unused()
            for file in leaving:
                self._detach(file)

    def attach(self, file: str) -> str:
        """The name in SQL of a batch table's file. Inside `use`; readers of any transaction can use it at once."""
        name = self._attached.get(file)
        if name is not None:
            return name
        with self._attaching:
            if file not in self._attached:
                path = self.batch_folder / file
                if not path.exists():
                    raise corrupt_batch(path, "it is not there")
                name = f"batch_{hashlib.md5(file.encode()).hexdigest()}"
                try:
                    self._run_outside(f"ATTACH {literal(path)} AS {name} (READ_ONLY)")
                except duckdb.Error as error:
                    raise corrupt_batch(path, str(error).splitlines()[0]) from error
                self._attached[file] = name
            return self._attached[file]

    def _run_outside(self, statement: str) -> None:
        """Run SQL outside of every transaction."""
        with closing(self._root.cursor()) as connection:
            run(connection, statement)

    def release(self, files: Sequence[str]) -> None:
        """Delete files of batch tables as soon as nobody who may still read them is left."""
        with self._gate:
            self._released += [(self._turn, file) for file in files]

    def _unused(self) -> list[str]:
        """Released files that no use under way began early enough to know of; inside the gate."""
        first = min(self._users, default=self._turn + 1)
        unused = [file for turn, file in self._released if turn < first]
        self._released = [(turn, file) for turn, file in self._released if turn >= first]
        return unused

    def _detach(self, file: str) -> None:
        with self._attaching:
            name = self._attached.pop(file, None)
            self.corrections.pop(file, None)
            if name is not None:
                with suppress(duckdb.Error):  # of an invalid database: it is opened again without this file
                    self._run_outside(f"DETACH {name}")
        with suppress(OSError):  # what stays is cleaned at the next start
            (self.batch_folder / file).unlink(missing_ok=True)

    def give(self, functions: Functions) -> None:
        """Let queries call these functions; inside `use`, before a query that does."""
        with self._attaching:
            for name in functions.keys() - self._functions:
                functions[name](self._root)
                self._functions.add(name)

    @contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of one's own, inside `use`."""
        try:
            connection = self._spare.pop()
        except IndexError:
            connection = self._root.cursor()
            if self.read_only:
                show_as_current(connection)
        try:
            with interruptible(connection.interrupt):
                yield connection
        except BaseException:
            connection.close()
            raise
        self._spare.append(connection)

    def run_again(
        self, connection: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        """Run a query that is likely to be repeated with other parameters: it is parsed once."""
        statement = self._statements.get(query)
        if statement is None:
            (statement,) = connection.extract_statements(query)
            if len(self._statements) >= MOST_STATEMENTS:
                self._statements.clear()
            self._statements[query] = statement
        rows: list[tuple[Any, ...]] = connection.execute(statement, parameters).fetchall()
        return rows

    def explain(self, error: Exception) -> HeadraceError | None:
        """The error that a failure of the file means; None if it is one of the query."""
        if is_disk_full(error):
            return disk_full("views cannot be updated", self.path)
        if isinstance(error, OSError):
            return None
        if _CORRUPT.search(str(error)) and not isinstance(error, duckdb.InvalidInputException):
            return self._find_damage(error)
        if isinstance(error, _FATAL):
            first = str(error).splitlines()[0]
            return UnavailableError(f"store {self.path} failed: {first}", fix="it is reopened automatically; try again")
        return None

    def _find_damage(self, error: Exception) -> CorruptionError:
        """Find the damaged file and note it for the next start. DuckDB does not name it: it is the one that fails."""
        for file in list(self._attached):
            path = self.batch_folder / file
            damage = read_all_blocks(path)
            if damage:
                note_damage(path)
                return corrupt_batch(path, damage)
        note_damage(self.path)
        return corrupt(self.path, error)

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


def read_all_blocks(path: Path) -> str | None:
    """Read every block of a batch table's file: what is wrong with it, by DuckDB's checksums; None if nothing is."""
    try:
        with closing(open_database(path, read_only=True)) as connection:
            tables = run(connection, "SELECT table_name FROM duckdb_tables() ORDER BY 1")
            for (table,) in tables:
                run(connection, f'SELECT bit_xor(hash(t)) FROM "{table}" AS t')
    except (duckdb.Error, OSError) as error:
        return str(error).splitlines()[0]
    return None


def note_damage(path: Path) -> None:
    """Note the damage, so that the next start does not use the file, though it may open."""
    with suppress(OSError):
        path.with_name(path.name + DAMAGED).touch()


def corrupt(path: Path, error: Exception) -> CorruptionError:
    """The error for a file that cannot be read."""
    return CorruptionError(
        f"store {path} cannot be read",
        found=str(error).splitlines()[0],
        fix="restart `headrace up`: it sets the file aside and computes the views again from the lake",
    )


def corrupt_batch(path: Path, reason: str) -> CorruptionError:
    """The error for a batch table that cannot be read."""
    return CorruptionError(
        f"batch table {path} cannot be read",
        found=reason,
        fix="restart `headrace up`: its view is built again from the lake",
    )


def _connect(path: Path, read_only: bool) -> duckdb.DuckDBPyConnection:
    if read_only and not path.exists():
        raise WorkspaceError(
            f"store {path} does not exist", expected="a file that `headrace up` made", fix="run `headrace up` first"
        )
    try:
        return open_database(path, read_only=read_only)
    except duckdb.Error as error:
        if is_disk_full(error):
            raise disk_full("views cannot be opened", path) from error
        message = str(error).splitlines()[0]
        if isinstance(error, duckdb.IOException) and "lock" in str(error).lower():
            raise HeldError(
                f"store {path} is in use by another process",
                found=message,
                fix="use the running server, or stop it first",
            ) from error
        if isinstance(error, duckdb.IOException) and ("Permission denied" in message or "Read-only" in message):
            raise WorkspaceError(
                f"store {path} cannot be opened", found=message, fix="give this user write permission there"
            ) from error
        if "newer version of DuckDB" in str(error):
            raise NewerFormatError(
                f"store {path} was written by a newer Headrace",
                found=message,
                fix=f"nothing was changed; use the newer Headrace, {REBUILD}",
            ) from error
        raise corrupt(path, error) from error


def format_of(path: Path) -> int:
    """The format version of a store that no process has open."""
    with closing(_connect(path, read_only=True)) as connection:
        return stored_format(connection) or FORMAT
