"""The store of a workspace: which file it is, and which versions are in it. The lake decides: it is the only truth."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import structlog
from deltalake import DeltaTable

from headrace.disk import remove
from headrace.errors import CorruptionError, HeldError
from headrace.lake.table import FENCE_ID
from headrace.maintain.slices import remove_unneeded
from headrace.store.base import BatchTable, Version
from headrace.store.duckdb.batch_table import check_batch_table
from headrace.store.duckdb.database import DAMAGED, OutdatedError
from headrace.store.duckdb.store import DuckStore
from headrace.workspace.lease import Lease
from headrace.workspace.settings import Workspace

ASIDE = "set-aside-"

log = structlog.get_logger("headrace.store")


def take_lease(workspace: Workspace, url: str | None) -> Lease:
    """The lease of a workspace. If its file was lost, the data tells which fences were used."""
    workspace.make_data()
    return Lease(
        workspace.lease_file,
        url=url,
        silent_after_s=workspace.settings.lease_s,
        floor=lambda: highest_fence(workspace.data),
    )


def highest_fence(data: Path) -> int:
    """The highest fence that anything in the data folder was written under; 0 if there is nothing."""
    found = [int(path.stem.rpartition("-")[2]) for path in data.glob("journal/*/*-*.seg") if path.stem[-8:].isdigit()]
    found += [int(path.stem[6:]) for path in data.glob("store/views-*.duckdb") if path.stem[6:].isdigit()]
    for lake in data.glob("lake/*"):
        with suppress(Exception):  # a log that cannot be read is named by whoever needs it
            found.append(DeltaTable(lake).transaction_version(FENCE_ID) or 0)
    return max(found, default=0)


def open_store(workspace: Workspace, fence: int) -> DuckStore:
    """The newest store file; a new one, to be filled from the lake, if that is damaged or held by a silent process."""
    folder = workspace.data / "store"
    folder.mkdir(parents=True, exist_ok=True)
    files = store_files(workspace)
    fresh = folder / f"views-{fence:08d}.duckdb"
    newest = files[-1] if files else fresh
    try:
        store = _open(newest, fence)
    except HeldError:
        log.warning("the store is held by a process that lost its lease; views are recomputed", file=str(newest))
        files.append(fresh)
        store = _open(fresh, fence)
    except OutdatedError as error:
        log.warning(
            "the store is of an older Headrace; views are rebuilt from the lake", file=str(newest), found=str(error)
        )
        files.append(fresh)
        store = _open(fresh, fence)
    except CorruptionError as error:
        log.error("the store is damaged and set aside; views are recomputed", error=str(error))
        _set_aside(newest)
        store = _open(fresh, fence)
    for old in files[:-1]:
        for left in folder.glob(f"{old.name}*"):
            left.unlink(missing_ok=True)
    _discard_damaged(store)
    return store


def _discard_damaged(store: DuckStore) -> None:
    """Let go of the versions of which a batch table cannot be read: they are built again, from the lake."""
    with store.snapshot() as snapshot:
        versions = snapshot.versions()
    for version in versions:
        reason = next(filter(None, (fault_of(store.batch_folder, version, table) for table in version.batch)), None)
        if reason:
            log.error(
                "a batch table is damaged; its version is rebuilt from the lake",
                view=version.view.name,
                version=version.number,
                error=reason,
            )
            store.discard(version.view.name, version.number)


def fault_of(folder: Path, version: Version, table: BatchTable) -> str | None:
    """What is wrong with a batch table of a version, as far as a glance or an earlier failure tells."""
    path = folder / table.file
    if path.with_name(path.name + DAMAGED).exists():
        return f"batch table '{path}' was found damaged while it was in use"
    return check_batch_table(path, view=version.view.name, rows=table.rows, events=table.events)


def open_to_read(workspace: Workspace, file: Path) -> DuckStore:
    """The store as a server left it."""
    return DuckStore.open(file, 0, read_only=True, batch_folder=batch_folder(workspace.data))


def _open(file: Path, fence: int) -> DuckStore:
    note = file.with_name(file.name + DAMAGED)
    if note.exists():
        raise CorruptionError(f"store {file} was found damaged while it was in use")
    if not file.exists() and file.with_name(file.name + ".wal").exists():
        raise CorruptionError(f"store {file} is gone but for its write-ahead log")
    return DuckStore.open(file, fence, batch_folder=batch_folder(file.parent.parent))


def batch_folder(data: Path) -> Path:
    """Where the files of batch tables lie."""
    return data / "batch"


def _set_aside(file: Path) -> None:
    """Keep the damaged file for whoever wants to look at it, and none of those before it."""
    for earlier in file.parent.glob(f"{ASIDE}*"):
        earlier.unlink()
    for part in [*file.parent.glob(f"{file.name}*")]:
        if part.name.endswith(DAMAGED):
            part.unlink()
        else:
            part.rename(part.with_name(ASIDE + part.name))


def store_files(workspace: Workspace) -> list[Path]:
    """The store's files, the current one last."""
    return sorted((workspace.data / "store").glob("views-*.duckdb"))


def clean(store: DuckStore, builds: Path) -> None:
    """Remove what a process that died left: batch tables that no version speaks of, slices that none is made of."""
    with store.snapshot() as snapshot:
        versions = snapshot.versions()
    tables = {table.file for version in versions for table in version.batch}
    for path in store.batch_folder.glob("*"):
        if path.name not in tables:
            remove(path)
    remove_unneeded(builds, versions)
