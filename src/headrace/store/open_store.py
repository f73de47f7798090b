"""Opens the store of a workspace, or a temporary one. All others know a store by its protocol; here is which it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.lazy import Logger
from headrace.store.duckdb import store_files as files
from headrace.store.duckdb.batch_folder import faults_of
from headrace.store.duckdb.database import format_of
from headrace.store.duckdb.duckdb_reader import batch_folder, store_files
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Store
from headrace.store.version import Version
from headrace.workspace.settings import Workspace

log = Logger("headrace.store")


def open_store(workspace: Workspace, fence: int) -> Store:
    """The store, to write. Versions that cannot be read are discarded: they are built again, from the lake."""
    store = files.open_store(workspace.data, fence)
    with store.snapshot() as snapshot:
        versions = snapshot.versions()
    for version in versions:
        faults = store.faults_of(version)
        if faults:
            log.error(
                "a batch table is damaged; its version is rebuilt from the lake",
                view=version.view.name,
                version=version.number,
                error=faults[0],
            )
            store.discard(version.view.name, version.number)
    return store


def store_format(workspace: Workspace) -> set[int]:
    """The format version of the store, if there is one. Raises HeldError if a process has it open."""
    return {format_of(file) for file in store_files(workspace.data)[-1:]}


def open_temporary(folder: Path) -> Store:
    """An empty store in a new folder, whatever the workspace's own is; it is gone when the folder is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    return DuckStore.open(folder / "views.duckdb", fence=1)


def highest_fence(data: Path) -> int:
    """The highest fence that the store in a data folder was written under; 0 if there is none."""
    return files.highest_fence(data)


def table_faults(workspace: Workspace, versions: Iterable[Version]) -> list[str]:
    """The faults of batch tables of versions, by their headers and by earlier failures."""
    folder = batch_folder(workspace.data)
    return [fault for version in versions for fault in faults_of(folder, version)]


def check_batch_tables(workspace: Workspace, *, deep: bool) -> tuple[int, list[str]]:
    """The number of batch tables, and the faults of some, beside a server too; `deep` reads each completely."""
    return files.check_batch_files(workspace.data, deep=deep)
