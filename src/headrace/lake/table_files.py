"""The files of a table that this process knows: those of some commits, those being read, those being deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TARGET_BYTES = 128 << 20  # of Parquet in one file, once many were combined


@dataclass(frozen=True)
class LakeFile:
    """A Parquet file of the table; it holds rows of commits [first_commit, last_commit]."""

    path: str
    size: int
    rows: int
    dead: bool
    first_commit: int
    last_commit: int


class FileIndex:
    """The files of one table by path. `LakeTable` calls it, and holds its lock around each call."""

    def __init__(self, files: Iterable[LakeFile]) -> None:
        self._files = {file.path: file for file in files}
        self.rows = {dead: sum(f.rows for f in self._files.values() if f.dead == dead) for dead in (False, True)}
        self._readers: Counter[str] = Counter()  # by path
        self._doomed: set[str] = set()  # paths that are being deleted

    def find(self, from_commit: int, to_commit: int, dead: bool) -> list[LakeFile]:
        """The files with rows of commits [from_commit, to_commit), oldest first."""
        files = [
            file
            for file in self._files.values()
            if file.dead == dead and file.first_commit < to_commit and file.last_commit >= from_commit
        ]
        return sorted(files, key=lambda file: (file.first_commit, file.last_commit, file.path))

    def has(self, file: LakeFile) -> bool:
        """Return whether this file is in the table."""
        return self._files.get(file.path) == file

    def replace(self, add: Iterable[LakeFile], remove: Iterable[LakeFile]) -> None:
        """Add and remove files, as an entry of the log does."""
        for file in remove:
            del self._files[file.path]
            self.rows[file.dead] -= file.rows
        for file in add:
            self._files[file.path] = file
            self.rows[file.dead] += file.rows

    def pin(self, files: Iterable[LakeFile]) -> None:
        """Keep files on disk until `unpin`: they are being read."""
        self._readers.update(file.path for file in files)

    def unpin(self, files: Iterable[LakeFile]) -> None:
        self._readers.subtract(file.path for file in files)
        self._readers += Counter()  # drops counts of zero

    def doom(self, paths: Iterable[str]) -> list[str]:
        """Mark the paths that are not in the table and have no reader: doomed until `forget`."""
        doomed = [path for path in paths if path not in self._files and not self._readers[path]]
        self._doomed.update(doomed)
        return doomed

    def is_doomed(self, path: str) -> bool:
        return path in self._doomed

    def forget(self, path: str) -> None:
        self._doomed.discard(path)


def summary(files: Sequence[LakeFile]) -> list[tuple[bool, int, int, int]]:
    """The totals that a rewrite keeps: (dead, rows, first commit, last commit) of events and of dead letters."""
    parts = []
    for dead in sorted({file.dead for file in files}):
        own = [file for file in files if file.dead == dead]
        first, last = min(file.first_commit for file in own), max(file.last_commit for file in own)
        parts.append((dead, sum(file.rows for file in own), first, last))
    return parts
