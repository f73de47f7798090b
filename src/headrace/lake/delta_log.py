"""The log of a Delta table: actions, entries that are durable and never overwritten, checkpoints, clean-up.

delta-rs reads the table and writes checkpoints. Entries are written here: with delta-rs they cost about 3 microseconds
for each file of the table and 100 for each entry since the checkpoint, and are not synced to disk.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import orjson
from deltalake import DeltaTable, Schema

from headrace.errors import FencedError
from headrace.lake.storage import Storage
from headrace.lake.table_schema import DEAD
from headrace.lazy import pa

if TYPE_CHECKING:
    from headrace.lake.parquet_file import NewFile
    from headrace.lake.table_files import LakeFile

FOLDER = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
CHECKPOINT_ENTRIES = 200  # entries after the last checkpoint before another one is written
Action = dict[str, Any]


def transaction(name: str, value: int) -> Action:
    """The action that sets an application transaction: a number that belongs to the table."""
    return {"txn": {"appId": name, "version": value, "lastUpdated": int(time.time() * 1000)}}


def file_changes(add: Sequence[NewFile], remove: Sequence[LakeFile], *, data_change: bool) -> list[Action]:
    """The actions that add and remove files; `data_change` is false if the table has the same rows before and after."""
    now_ms = int(time.time() * 1000)

    def action(file: NewFile | LakeFile) -> Action:
        values = {DEAD: "true" if file.dead else "false"}
        return {"path": file.path, "partitionValues": values, "size": file.size, "dataChange": data_change}

    removal = {"deletionTimestamp": now_ms, "extendedFileMetadata": True}
    removes = [{"remove": {**action(file), **removal}} for file in remove]
    adds = [{"add": {**action(file), "modificationTime": now_ms, "stats": file.stats}} for file in add]
    return [*removes, *adds]


def schema_change(table: DeltaTable, schema: pa.Schema) -> Action | None:
    """The action that makes this the recorded schema; None if it is already. delta-rs has no call that widens a type.

    Without it, readers of the log would get the old types, and fail at the first value that needs the new one.
    """
    target = Schema.from_arrow(schema).to_json()
    if table.schema().to_json() == target:
        return None
    old = table.metadata()
    metadata = {
        "id": str(old.id),
        "name": old.name,
        "description": old.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": target,
        "partitionColumns": old.partition_columns,
        "createdTime": old.created_time,
        "configuration": old.configuration,
    }
    return {"metaData": metadata}


class DeltaLog:
    """Appends to one table's log, from the version that this process has read."""

    def __init__(self, storage: Storage, version: int) -> None:
        self._storage = storage
        self.version = version

    def put(self, actions: Sequence[Action]) -> None:
        """Make these actions the next version, complete and on disk, or raise FencedError with nothing written.

        No entry can be put where another process has written this version. If that process has already
        removed it again, it has first removed the versions before it, so the one that this process has read
        does not exist either; the new entry then lies before a checkpoint, where it is never read.
        """
        info = {"timestamp": int(time.time() * 1000), "operation": "WRITE", "engineInfo": "headrace"}
        lines = [orjson.dumps(action) for action in ({"commitInfo": info}, *actions)]
        entry = _entry(self.version + 1)
        if not self._storage.put(entry, b"\n".join(lines) + b"\n"):
            raise self._overtaken()
        if not self._storage.stat(_entry(self.version)):
            self._storage.remove(entry)
            raise self._overtaken()
        self.version += 1

    def check(self) -> None:
        """Raise FencedError if another process has written to the log."""
        if self._storage.stat(_entry(self.version + 1)) or not self._storage.stat(_entry(self.version)):
            raise self._overtaken()

    def entries(self) -> int:
        """The number of entries after the last checkpoint: opening the table reads them one by one."""
        checkpoints = self._checkpoints()
        return self.version - (checkpoints[-1] if checkpoints else 0)

    def tidy(self, every: int = CHECKPOINT_ENTRIES) -> int:
        """Write a checkpoint if it is due, and remove what lies before the previous one; returns how many files.

        A reader that started at the previous checkpoint still finds all entries after it.
        """
        if self.entries() >= every:
            DeltaTable(self._storage.location).create_checkpoint()
        checkpoints = self._checkpoints()
        if len(checkpoints) < 2:
            return 0
        # Until the checkpoints are on disk, only the entries survive a loss of power.
        newest = [f"{FOLDER}/{version:020d}.checkpoint.parquet" for version in checkpoints[-2:]]
        self._storage.sync(*newest, f"{FOLDER}/{LAST_CHECKPOINT}")
        old = [name for name in self._names() if _version_of(name) < checkpoints[-2]]
        for name in old:  # oldest first: see put
            self._storage.remove(name)
        return len(old)

    def _overtaken(self) -> FencedError:
        return FencedError(
            f"lake '{PurePath(self._storage.location).name}' was taken over by another process",
            found=f"version {self.version + 1} of its log, written by that process",
            fix="this process stops, nothing of it was stored; the other one continues",
        )

    def _names(self) -> list[str]:
        return [file.name for file in self._storage.list(f"{FOLDER}/")]

    def _checkpoints(self) -> list[int]:
        return [_version_of(name) for name in self._names() if name.endswith(".checkpoint.parquet")]


def _entry(version: int) -> str:
    return f"{FOLDER}/{version:020d}.json"


def _version_of(name: str) -> int:
    """The version that a file of the log belongs to; a file of no version counts as the newest."""
    head = name.removeprefix(f"{FOLDER}/")[:20]
    return int(head) if head.isdigit() else 1 << 63
