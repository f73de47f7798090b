"""The DuckDB files of a workspace's store: which one is current, and what becomes of one that cannot be used."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import CorruptionError, HeldError, NewerFormatError
from headrace.lazy import Logger
from headrace.store.duckdb.batch_table import check_batch_table
from headrace.store.duckdb.database import DAMAGED, read_all_blocks
from headrace.store.duckdb.duckdb_reader import batch_folder, store_files
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.duckdb.file_format import OutdatedError

ASIDE = "set-aside-"

log = Logger("headrace.store")


def open_store(data: Path, fence: int) -> DuckStore:
    """The newest store file; a new one, to be filled from the lake, if that is damaged or held by a silent process."""
    folder = data / "store"
    folder.mkdir(parents=True, exist_ok=True)
    files = store_files(data)
    fresh = folder / f"views-{fence:08d}.duckdb"
    newest = files[-1] if files else fresh
    try:
        store = _open(newest, fence)
    except HeldError:
        log.warning("the store is in use by a process that lost its lease; views are recomputed", file=str(newest))
        files.append(fresh)
        store = _open(fresh, fence)
    except OutdatedError as error:
        log.warning(
            "the store is of an older Headrace; views are rebuilt from the lake", file=str(newest), found=str(error)
        )
        files.append(fresh)
        store = _open(fresh, fence)
    except NewerFormatError:
        raise
    except CorruptionError as error:
        log.error("the store is damaged and set aside; views are recomputed", error=str(error))
        _set_aside(newest)
        store = _open(fresh, fence)
    for old in files[:-1]:
        for left in folder.glob(f"{old.name}*"):
            left.unlink(missing_ok=True)
    return store


def highest_fence(data: Path) -> int:
    """The highest fence that a store file was made under; 0 if there is none."""
    return max((int(path.stem[6:]) for path in store_files(data) if path.stem[6:].isdigit()), default=0)


def check_batch_files(data: Path, *, deep: bool) -> tuple[int, list[str]]:
    """The number of batch tables, and the faults of some; `deep` reads each completely."""
    files, faults = sorted(batch_folder(data).glob("*.duckdb")), []
    for file in files:
        fault = check_batch_table(file) or (_unreadable(file) if deep else None)
        if fault and file.exists():  # a server may have let it go meanwhile
            faults.append(fault)
    return len(files), faults


def _unreadable(file: Path) -> str | None:
    error = read_all_blocks(file)
    return f"batch table '{file}' cannot be read: {error}" if error else None


def _open(file: Path, fence: int) -> DuckStore:
    note = file.with_name(file.name + DAMAGED)
    if note.exists():
        raise CorruptionError(f"store {file} was found damaged while it was in use")
    if not file.exists() and file.with_name(file.name + ".wal").exists():
        raise CorruptionError(f"store {file} is missing, except for its write-ahead log")
    return DuckStore.open(file, fence, batch_folder=batch_folder(file.parent.parent))


def _set_aside(file: Path) -> None:
    """Keep the damaged file for inspection, and none of those before it."""
    for earlier in file.parent.glob(f"{ASIDE}*"):
        earlier.unlink()
    for part in [*file.parent.glob(f"{file.name}*")]:
        if part.name.endswith(DAMAGED):
            part.unlink()
        else:
            part.rename(part.with_name(ASIDE + part.name))
