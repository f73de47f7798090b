"""The storage of the files of a stream's table: put if absent, read, list by prefix, remove; on a local disk.

Files have names below the table, such as `_dead=false/000000000001-….parquet`; their content is not interpreted here.
delta-rs, Spark and Arrow open the table and its files themselves, at what `location` and `locate` return.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol
from uuid import uuid4

from headrace.disk import sync


@dataclass(frozen=True)
class Stored:
    """A file as it is now."""

    name: str
    size: int
    modified_s: float  # since the epoch: when it was written, or touched


class Storage(Protocol):
    """The files of one table.

    `delta_log.py` puts, lists and removes entries of the log; `parquet_file.py` writes Parquet files to drafts and
    finishes them, in Spark's workers too; `delta_table.py` syncs the names of files before the log mentions them;
    `health.py` checks that they are as they were written; `upkeep.py` removes those that are not in the table.
    """

    @property
    def location(self) -> str:
        """The path or URI of the table, for delta-rs and Spark."""

    def locate(self, name: str) -> str:
        """The path or URI of a file, for Spark and Arrow. Callers do not join names to folders themselves."""

    def prepare(self, *folders: str) -> None:
        """Create the place of the table and of these folders in it, if they do not exist."""

    def put(self, name: str, content: bytes) -> bool:
        """Create a file, complete and durable when this returns; False if the name exists, and then nothing changes.

        Of several processes that put the same name, one succeeds.
        """

    def draft(self, name: str) -> Path:
        """A path on the local disk for a file that is being written; `finish` then gives it its name."""

    def finish(self, draft: Path, name: str) -> None:
        """Make a draft the file of this name; its content is durable when this returns, its name after `sync_names`."""

    def sync_names(self, names: Iterable[str]) -> None:
        """Make the names of finished files durable: from then on they survive a loss of power."""

    def sync(self, *names: str) -> None:
        """Make files durable, content and name, that another library has written."""

    def stat(self, name: str) -> Stored | None:
        """A file; None if there is none of this name."""

    def list(self, prefix: str) -> list[Stored]:
        """The files whose names begin with this, up to the next `/`, by name."""

    def open(self, name: str) -> BinaryIO:
        """A file, to read any part of it."""

    def touch(self, name: str) -> None:
        """Set when a file was last modified to now."""

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if there is none."""


class LocalStorage:
    """A folder of a local disk."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)

    @property
    def location(self) -> str:
        return str(self._folder)

    def locate(self, name: str) -> str:
        return str(self._folder / name)

    def prepare(self, *folders: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for folder in folders:
            (self._folder / folder).mkdir(exist_ok=True)
        sync(self._folder)
        sync(self._folder.parent)

    def put(self, name: str, content: bytes) -> bool:
        # A link to a file that is already on disk; linking fails if the name exists.
        draft, target = self._folder / f".entry-{uuid4().hex}", self._folder / name
        try:
            _write_synced(draft, content)
            os.link(draft, target)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        try:
            sync(target.parent)
        except OSError:
            target.unlink(missing_ok=True)  # a file that may not be durable must not exist
            raise
        return True

    def draft(self, name: str) -> Path:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def finish(self, draft: Path, name: str) -> None:
        target = self._folder / name
        shutil.move(draft, target)
        sync(target)

    def sync_names(self, names: Iterable[str]) -> None:
        for folder in sorted({(self._folder / name).parent for name in names}):
            sync(folder)

    def sync(self, *names: str) -> None:
        for name in names:
            sync(self._folder / name)
        self.sync_names(names)

    def stat(self, name: str) -> Stored | None:
        try:
            status = os.stat(self._folder / name)
        except OSError:
            return None
        return Stored(name, status.st_size, status.st_mtime)

    def list(self, prefix: str) -> list[Stored]:
        folder, _, start = prefix.rpartition("/")
        try:
            names = sorted(name for name in os.listdir(self._folder / folder) if name.startswith(start))
        except FileNotFoundError:
            return []
        stored = (self.stat(f"{folder}/{name}" if folder else name) for name in names)
        return [each for each in stored if each]  # others were removed meanwhile

    def open(self, name: str) -> BinaryIO:
        return (self._folder / name).open("rb")

    def touch(self, name: str) -> None:
        os.utime(self._folder / name)

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)


def _write_synced(path: Path, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
