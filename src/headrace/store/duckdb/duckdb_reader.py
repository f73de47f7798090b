"""Reads a store in DuckDB as it was left: its files and transactions. `duckdb_store.py` writes, and loads far more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

import duckdb

from headrace.duckdb_connections import run
from headrace.store.duckdb.database import Database
from headrace.store.duckdb.folds import step_rows
from headrace.store.duckdb.row_cache import CachedRows, Lookups
from headrace.store.duckdb.snapshot import DuckSnapshot, find_serving
from headrace.store.duckdb.stored_texts import StoredTexts
from headrace.store.duckdb.table_sql import STAGED
from headrace.store.duckdb.version_rows import read_versions
from headrace.store.store_contract import NotCachedError, Snapshot, T
from headrace.store.version import Version


class Transactions:
    """Reads and writes the database in transactions; a write ends with all versions read again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writing = threading.Lock()
        self._committing = threading.Lock()
        # What is committed; None if it is not known which side of a commit a reader sees.
        self.committed: list[Version] | None = None
        self._latest: list[Version] | None = None  # the same, but also while the next commit is under way
        self._lookups = Lookups()
        self._leaving: list[str] = []
        self._steps: list[tuple[Version, CachedRows | None]] = []  # of the write under way

    @contextmanager
    def write(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction that writes, one at a time; an error rolls it back."""
        with self._writing, self._database.use():
            self._leaving, self._steps = [], []
            connection = self._database.writer
            connection.begin()
            try:
                yield connection
                after = read_versions(connection)
            except BaseException:
                with suppress(duckdb.Error):
                    connection.rollback()
                raise
            versions = {version.id: version for version in after}
            for before, rows in self._steps:
                self._lookups.add(before, versions[before.id], rows)
            with self._committing:
                self.committed = None
                try:
                    connection.commit()
                except BaseException:
                    self._latest = None  # each reader looks for itself what became of it
                    raise
                self.begin_with(after)
            self._database.release(self._leaving)

    def begin_with(self, versions: list[Version]) -> None:
        """Begin with these versions, which are committed."""
        self.committed = self._latest = versions

    def versions(self) -> list[Version]:
        """The versions that were committed last, in most cases without a read."""
        latest = self._latest
        if latest is not None:
            return list(latest)
        with self.snapshot() as snapshot:
            return snapshot.versions()

    def release(self, files: Iterable[str]) -> None:
        """Delete these files of batch tables once `write` is committed and nobody reads them any more."""
        self._leaving += files

    def overlay(self, connection: duckdb.DuckDBPyConnection, version: Version) -> Callable[[str | None], None] | None:
        """Add the partials of a step to the cached rows of a version, within `write`; None if none are cached."""
        is_cached = version.view.over is None and self._lookups.caches(version)
        return partial(self._add_step, connection, version) if is_cached else None

    def _add_step(self, connection: duckdb.DuckDBPyConnection, version: Version, partials: str | None) -> None:
        if partials == STAGED:
            return  # many rows, already merged with those before: the version is read again
        rows = partials and connection.sql(step_rows(version.view, partials)).to_arrow_table()
        self._steps.append((version, CachedRows.read(version.view, rows) if rows else None))

    @contextmanager
    def snapshot(self) -> Iterator[DuckSnapshot]:
        """A consistent read in a transaction of its own; without one of a file that is only read: nobody changes it."""
        with self._database.use(), self._database.reader() as connection:
            if self._database.read_only:
                yield DuckSnapshot(connection, self._database, self.committed, self._lookups)
                return
            connection.begin()
            try:
                known = self.committed
                run(connection, "SELECT 1 FROM versions LIMIT 0")  # the snapshot of the transaction begins here
                yield DuckSnapshot(
                    connection, self._database, known if self.committed is known else None, self._lookups
                )
            finally:
                with suppress(duckdb.Error):  # of an invalid database: the failure before it is reported
                    connection.rollback()

    def _wait_committed(self) -> list[Version] | None:
        """The versions that are committed, after a commit that is under way; None if it failed."""
        if self.committed is None:
            with self._committing:
                return self.committed
        return self.committed

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """Return the result of `work` for a snapshot; without a transaction if nothing is committed meanwhile."""
        with self._database.use(), self._database.reader() as connection:
            known = self._wait_committed()
            if known is not None:
                # Without a transaction around its statements, which would take longer than a lookup. No commit has
                # begun as long as `committed` is the same object, so until then they all see the same state.
                try:
                    snapshot = DuckSnapshot(connection, self._database, known, self._lookups)
                    result = work(snapshot)
                except Exception:
                    if self.committed is known:
                        raise
                else:
                    if self.committed is known:
                        snapshot.cache_rows()
                        return result
                    if not snapshot.has_read:  # from rows in memory: right for a version that served when it was asked
                        return result
        with self.snapshot() as snapshot:
            return work(snapshot)

    def read_cached(self, work: Callable[[Snapshot], T]) -> T | None:
        """Return the result of `work` for cached rows; None if they are not cached, or while a write is committed."""
        known = self.committed
        try:
            return None if known is None else work(DuckSnapshot(None, self._database, known, self._lookups))
        except NotCachedError:
            return None


class DuckReader:
    """Reads one DuckDB file and the files of its batch tables, by several threads."""

    def __init__(self, database: Database, texts: StoredTexts) -> None:
        self._database = database
        self._texts = texts
        self._transactions = Transactions(database)
        try:
            with self.snapshot() as snapshot:
                self._begin(snapshot)
        except BaseException:
            self.close()
            raise

    def _begin(self, snapshot: DuckSnapshot) -> None:
        self._transactions.begin_with(snapshot.versions())

    def stored_texts(self, kind: str) -> dict[str, str]:
        return self._texts.read(kind)

    def snapshot(self) -> AbstractContextManager[DuckSnapshot]:
        return self._transactions.snapshot()

    def read(self, work: Callable[[Snapshot], T]) -> T:
        return self._transactions.read(work)

    def read_cached(self, work: Callable[[Snapshot], T]) -> T | None:
        return self._transactions.read_cached(work)

    def versions(self) -> list[Version]:
        return self._transactions.versions()

    def serving_now(self, view: str) -> Version | None:
        return find_serving(self._committed, view)

    @property
    def _committed(self) -> Sequence[Version]:
        """The versions that are known to be committed; none while a write is committed."""
        return self._transactions.committed or ()

    def close(self) -> None:
        self._database.close()


def open_to_read(data: Path) -> DuckReader | None:
    """The store as a server left it; None if there has never been one."""
    files = store_files(data)
    return open_file(files[-1], batch_folder(data)) if files else None


def open_file(path: Path, batch_folder: Path | None = None) -> DuckReader:
    """Open a store's file to read; a process that has it open to write is an error."""
    folder = batch_folder or path.with_name("batch")
    return DuckReader(Database(path, folder, 0, read_only=True), StoredTexts(path.parent, None))


def store_files(data: Path) -> list[Path]:
    """The store's files, the current one last."""
    return sorted((data / "store").glob("views-*.duckdb"))


def batch_folder(data: Path) -> Path:
    """The folder of the files of batch tables."""
    return data / "batch"
