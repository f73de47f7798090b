"""Data as a newer Headrace would leave it: the same, but for its format version."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from headrace.disk import FORMAT_FILE, write_format
from headrace.lake.delta_log import DeltaLog
from headrace.lake.delta_table import FORMAT_ID
from headrace.lake.storage import LocalStorage

NEWER = 3  # than the newest format of a workspace, a journal or a lake


def make_newer(folder: Path) -> None:
    """A workspace's data folder or a journal."""
    (folder / FORMAT_FILE).unlink(missing_ok=True)
    write_format(folder, NEWER)


def make_lake_newer(folder: Path) -> None:
    log = DeltaLog(LocalStorage(folder), DeltaTable(folder).version())
    log.put([{"txn": {"appId": FORMAT_ID, "version": NEWER, "lastUpdated": 0}}])
