"""The store of a workspace as it was left: its files, and reading them. `store.py` writes, and loads far more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from headrace.store.base import Snapshot, T
from headrace.store.duckdb.database import Database
from headrace.store.duckdb.kept import Kept
from headrace.store.duckdb.snapshot import DuckSnapshot, find_serving
from headrace.store.duckdb.transactions import Transactions
from headrace.store.version import Version


class DuckReader:
    """Reads one DuckDB file and the files of its batch tables, by several threads."""

    def __init__(self, database: Database, kept: Kept) -> None:
        self._database = database
        self._kept = kept
        self._transactions = Transactions(database)
        try:
            with self.snapshot() as snapshot:
                self._begin(snapshot)
        except BaseException:
            self.close()
            raise

    def _begin(self, snapshot: DuckSnapshot) -> None:
        self._transactions.begin_with(snapshot.versions())

    def kept(self, kind: str) -> dict[str, str]:
        return self._kept.read(kind)

    def snapshot(self) -> AbstractContextManager[DuckSnapshot]:
        return self._transactions.snapshot()

    def read(self, work: Callable[[Snapshot], T]) -> T:
        return self._transactions.read(work)

    def read_held(self, work: Callable[[Snapshot], T]) -> T | None:
        return self._transactions.read_held(work)

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
    return DuckReader(Database(path, folder, 0, read_only=True), Kept(path.parent, None))


def store_files(data: Path) -> list[Path]:
    """The store's files, the current one last."""
    return sorted((data / "store").glob("views-*.duckdb"))


def batch_folder(data: Path) -> Path:
    """Where the files of batch tables are."""
    return data / "batch"
