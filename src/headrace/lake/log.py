"""The log of a Delta table: entries that are durable and put only where none is, checkpoints, clean-up.

delta-rs reads the table and writes checkpoints. Entries are ours: its own cost some 3 microseconds for each file of
the table and 100 for each entry since the checkpoint, and are not synced to disk.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import orjson
from deltalake import DeltaTable

from headrace.errors import FencedError
from headrace.lake.storage import Storage

FOLDER = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
CHECKPOINT_ENTRIES = 200  # entries behind the last checkpoint before it is worth another
Action = dict[str, Any]


class DeltaLog:
    """Appends to one table's log, from the version that this process has read."""

    def __init__(self, storage: Storage, version: int) -> None:
        self._storage = storage
        self.version = version

    def put(self, actions: Sequence[Action]) -> None:
        """Make these actions the next version, whole and on disk, or raise FencedError with nothing written.

        No entry can be put where another process has written this version. If that process has even
        cleaned it up, it has removed the versions before it first, so ours is gone too; what was put then
        lies before a checkpoint, where nobody looks.
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
        """How many entries lie behind the last checkpoint: what opening the table reads one by one."""
        checkpoints = self._checkpoints()
        return self.version - (checkpoints[-1] if checkpoints else 0)

    def tidy(self, every: int = CHECKPOINT_ENTRIES) -> int:
        """Write a checkpoint if it is worth it, and remove what lies before the one before; how many files went.

        A reader that has begun at the checkpoint before still finds all that follows on it.
        """
        if self.entries() >= every:
            DeltaTable(self._storage.location).create_checkpoint()
        checkpoints = self._checkpoints()
        if len(checkpoints) < 2:
            return 0
        # Until the checkpoints are on disk, the entries are all there is after a loss of power.
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
    """The version that a file of the log belongs to; those that belong to none are newer than all."""
    head = name.removeprefix(f"{FOLDER}/")[:20]
    return int(head) if head.isdigit() else 1 << 63
