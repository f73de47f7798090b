"""The log of a Delta table on a local disk: entries that are durable and put only where none is, checkpoints, clean-up.

delta-rs reads the table and writes checkpoints. Entries are ours: its own cost some 3 microseconds for each file of
the table and 100 for each entry since the checkpoint, and are not synced to disk.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson
from deltalake import DeltaTable

from headrace.disk import sync
from headrace.errors import FencedError

FOLDER = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
CHECKPOINT_ENTRIES = 200  # entries behind the last checkpoint before it is worth another
_OPENED = itertools.count()
Action = dict[str, Any]


class DeltaLog:
    """Appends to one table's log, from the version that this process has read."""

    def __init__(self, table: Path, version: int, writer: str) -> None:
        self._table = table
        self._folder = table / FOLDER
        self._draft = table / f".entry-{writer}-{next(_OPENED)}"  # of this object's own, whoever else has it open
        self.version = version

    def put(self, actions: Sequence[Action]) -> None:
        """Make these actions the next version, whole and on disk, or raise FencedError with nothing written.

        The entry is linked to its name when it is on disk already. That fails if another process has
        written this version. If that process has even cleaned it up, it has removed the versions before
        it first, so ours is gone too; what was linked then lies before a checkpoint, where nobody looks.
        """
        info = {"timestamp": int(time.time() * 1000), "operation": "WRITE", "engineInfo": "headrace"}
        lines = [orjson.dumps(action) for action in ({"commitInfo": info}, *actions)]
        target = self._entry(self.version + 1)
        try:
            _write_synced(self._draft, b"\n".join(lines) + b"\n")
            os.link(self._draft, target)
        except FileExistsError:
            raise self._overtaken() from None
        finally:
            self._draft.unlink(missing_ok=True)
        if not self._entry(self.version).exists():
            target.unlink(missing_ok=True)
            raise self._overtaken()
        try:
            sync(self._folder)
        except OSError:
            target.unlink(missing_ok=True)  # what was not kept for certain was not kept
            raise
        self.version += 1

    def check(self) -> None:
        """Raise FencedError if another process has written to the log."""
        if self._entry(self.version + 1).exists() or not self._entry(self.version).exists():
            raise self._overtaken()

    def entries(self) -> int:
        """How many entries lie behind the last checkpoint: what opening the table reads one by one."""
        checkpoints = self._versions(".checkpoint.parquet")
        return self.version - (checkpoints[-1] if checkpoints else 0)

    def tidy(self, every: int = CHECKPOINT_ENTRIES) -> int:
        """Write a checkpoint if it is worth it, and remove what lies before the one before; how many files went.

        A reader that has begun at the checkpoint before still finds all that follows on it.
        """
        if self.entries() >= every:
            DeltaTable(self._table).create_checkpoint()
        checkpoints = self._versions(".checkpoint.parquet")
        if len(checkpoints) < 2:
            return 0
        # Until the checkpoints are on disk, the entries are all there is after a loss of power.
        for version in checkpoints[-2:]:
            sync(self._folder / f"{version:020d}.checkpoint.parquet")
        sync(self._folder / LAST_CHECKPOINT)
        sync(self._folder)
        old = [path for path in self._folder.iterdir() if _version_of(path) < checkpoints[-2]]
        for path in sorted(old):  # oldest first: see put
            path.unlink()
        return len(old)

    def _overtaken(self) -> FencedError:
        return FencedError(
            f"lake '{self._table.name}' was taken over by another process",
            found=f"version {self.version + 1} of its log, written by that process",
            fix="this process stops, nothing of it was stored; the other one continues",
        )

    def _entry(self, version: int) -> Path:
        return self._folder / f"{version:020d}.json"

    def _versions(self, ending: str) -> list[int]:
        return sorted(_version_of(path) for path in self._folder.iterdir() if path.name.endswith(ending))


def _version_of(path: Path) -> int:
    """The version that a file of the log belongs to; those that belong to none are newer than all."""
    head = path.name[:20]
    return int(head) if head.isdigit() else 1 << 63


def sync_folders(table: Path, paths: Iterable[str]) -> None:
    """Have the names of these files of a table on disk; their contents are already."""
    for folder in sorted({(table / path).parent for path in paths}):
        sync(folder)


def _write_synced(path: Path, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
