"""Partials of a long range of commits, computed slice by slice and kept on disk: what was done is not done again."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from headrace.disk import remove
from headrace.store.base import Version
from headrace.store.columns import plain_name

DRIFT = "drift-"  # before the name of what did not agree and is kept
DRAFT = "draft-"
CONTENT = "content.json"  # a slice's files, with size and checksum of each
PIECE_BYTES = 1 << 20
_NAME = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True)
class Slices:
    """The slices of commits [from_commit, to_commit) of one version, a folder each.

    A slice is there, whole, if its folder has its name: it is made under another one and renamed.
    """

    folder: Path
    from_commit: int
    to_commit: int

    def done_to(self) -> int:
        """Commits [from_commit, here) have been computed."""
        done = self._done()
        return done[-1][1] if done else self.from_commit

    def files(self) -> list[Path] | None:
        """The Parquet files of all slices, each as it was written; None if one is not: that slice is gone now."""
        files: list[Path] = []
        for start, end in self._done():
            path = self._path(start, end)
            found = _checked(path)
            if found is None:
                shutil.rmtree(path)
                return None
            files += found
        return files

    @contextmanager
    def adding(self, from_commit: int, to_commit: int) -> Iterator[Path]:
        """A folder to make and to write the slice of these commits into; it is one when that has ended well.

        It has a name of its own, and nobody else removes it: a process that was paused, and the one that took over
        from it, may both compute this slice, and Spark goes on writing for either.
        """
        with self.draft() as draft:
            yield draft
            content = {path.name: [path.stat().st_size, _checksum(path)] for path in sorted(draft.glob("*.parquet"))}
            (draft / CONTENT).write_bytes(orjson.dumps(content))
            target = self._path(from_commit, to_commit)
            shutil.rmtree(target, ignore_errors=True)
            os.rename(draft, target)

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """A folder to make and to write into, which is gone afterwards."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f"{DRAFT}{secrets.token_hex(4)}"
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def keep_as(self, folder: Path) -> None:
        """Put them aside, for somebody to look at."""
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(self.folder, folder)

    def remove(self) -> None:
        """They are not needed any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _done(self) -> list[tuple[int, int]]:
        names = (_NAME.fullmatch(path.name) for path in self.folder.glob("*-*"))
        found = {int(name[1]): int(name[2]) for name in names if name}
        done, at = [], self.from_commit
        while at in found and found[at] <= self.to_commit:
            done.append((at, found[at]))
            at = found[at]
        return done

    def _path(self, start: int, end: int) -> Path:
        return self.folder / f"{start}-{end}"


def slices_folder(builds: Path, version: Version) -> Path:
    """Where the slices of a version lie: those of another definition are never found there, whatever its number."""
    return builds / f"{plain_name(version.view.name)}-{version.home}-{version.fingerprint[:12]}"


def remove_unneeded(builds: Path, versions: Sequence[Version]) -> None:
    """Remove the slices that no version is being made of. A retired one that comes back computes its own again."""
    live = [version for version in versions if version.live]
    needed = {slices_folder(builds, v).name for v in live if not v.whole or v.next_horizon is not None}
    needed |= {f"{DRIFT}{slices_folder(builds, v).name}" for v in versions if v.alarm}
    for path in builds.glob("*"):
        if path.name not in needed:
            remove(path)


def damaged_slices(builds: Path) -> list[Path]:
    """Slices of which not all is as it was written."""
    found = [path for path in builds.glob("*/*-*") if _NAME.fullmatch(path.name)]
    return sorted(path for path in found if _checked(path) is None)


def _checked(slice_folder: Path) -> list[Path] | None:
    """The files of a slice; None if they are not what was written. A wrong bit would be a wrong number."""
    try:
        content = orjson.loads((slice_folder / CONTENT).read_bytes())
        paths = [slice_folder / name for name in content]
        same = all([path.stat().st_size, _checksum(path)] == content[path.name] for path in paths)
    except (OSError, ValueError, AttributeError):
        return None
    return paths if same else None


def _checksum(path: Path) -> int:
    found = 0
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            found = zlib.crc32(piece, found)
    return found
