"""A build, slice by slice: partials kept on disk, so that what was done is not done again, and how long builds took."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import orjson

from headrace.disk import remove
from headrace.plan.cost import DEFAULT_EVENTS_PER_S, ServerLoad, load_now
from headrace.store.partial_columns import plain_name
from headrace.store.version import Version, VersionId

DRIFT = "drift-"  # before the name of what did not agree and is kept
DRAFT = "draft-"
CONTENT = "content.json"  # a slice's files, with size and checksum of each
PIECE_BYTES = 1 << 20
_NAME = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True)
class Slices:
    """The slices of commits [from_commit, to_commit) of one version, a folder each.

    A slice is complete if its folder has its name: it is made under another one and renamed.
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
            parquet = _checked(path)
            if parquet is None:
                shutil.rmtree(path)
                return None
            files += parquet
        return files

    def add(self, from_commit: int, to_commit: int, draft: Path, written: Iterable[str]) -> None:
        """Make a draft the slice of these commits; it has the files that were written, whatever else is there."""
        files = map(Path, written)
        content = {path.name: [path.stat().st_size, _checksum(path)] for path in files}
        (draft / CONTENT).write_bytes(orjson.dumps(content))
        target = self._path(from_commit, to_commit)
        shutil.rmtree(target, ignore_errors=True)
        os.rename(draft, target)

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """A folder to write into, which is gone afterwards.

        It has a name of its own, and nobody else removes it: a process that was paused, and the one that took over
        from it, may both compute a slice, and Spark continues to write for either.
        """
        draft = self.folder / f"{DRAFT}{secrets.token_hex(4)}"
        draft.mkdir(parents=True)
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def keep_as(self, folder: Path) -> None:
        """Put them aside, for somebody to look at."""
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(self.folder, folder)

    def remove(self) -> None:
        """Remove the slices, which are not needed any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _done(self) -> list[tuple[int, int]]:
        names = (_NAME.fullmatch(path.name) for path in self.folder.glob("*-*"))
        ends = {int(name[1]): int(name[2]) for name in names if name}
        done, at = [], self.from_commit
        while at in ends and ends[at] <= self.to_commit:
            done.append((at, ends[at]))
            at = ends[at]
        return done

    def _path(self, start: int, end: int) -> Path:
        return self.folder / f"{start}-{end}"


def slices_folder(builds: Path, version: Version, stream: str) -> Path:
    """The folder of the slices of a version and a stream. Each definition has its own, whatever its number.

    The first stream's folder is named as before there could be several.
    """
    name = f"{plain_name(version.view.name)}-{version.home}-{version.fingerprint[:12]}"
    at = version.view.streams.index(stream)
    return builds / (f"{name}-{at}" if at else name)


def remove_unneeded(builds: Path, versions: Sequence[Version]) -> None:
    """Remove the slices that no version is being made of. A retired one that returns computes its own again."""
    needed: set[str] = set()
    for version in versions:
        for base in version.bases:
            name = slices_folder(builds, version, base.stream).name
            if version.live and (not version.complete or base.next_horizon is not None):
                needed.add(name)
            if base.alarm:
                needed.add(f"{DRIFT}{name}")
    for path in builds.glob("*"):
        if path.name not in needed:
            remove(path)


def damaged_slices(builds: Path) -> list[Path]:
    """Slices of which not all is as it was written."""
    folders = [path for path in builds.glob("*/*-*") if _NAME.fullmatch(path.name)]
    return sorted(path for path in folders if _checked(path) is None)


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
    checksum = 0
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            checksum = zlib.crc32(piece, checksum)
    return checksum


KEPT = 3  # builds; the last ones say most of the next
LEAST_S = 0.5


class BuildTimes:
    """The last builds of one stream, from their first piece of work until they serve."""

    def __init__(self, now: Callable[[], float] = time.monotonic, load: Callable[[], ServerLoad] = load_now) -> None:
        self._now = now
        self._load = load
        self._began: dict[VersionId, tuple[float, int, ServerLoad]] = {}
        self._beginnings: deque[float] = deque(maxlen=KEPT)

    @property
    def beginning_s(self) -> float | None:
        """The time that builds took without reading events, on a machine that is idle; None before the first."""
        return median(self._beginnings) if self._beginnings else None

    def begin(self, version: VersionId, events: Callable[[], int]) -> None:
        """The first piece of work on a version begins; later ones are no news."""
        if version not in self._began:
            self._began[version] = (self._now(), events(), self._load())

    def serves(self, version: VersionId, events_per_s: float | None) -> None:
        """A version serves. One that was not built by this process says nothing."""
        began = self._began.pop(version, None)
        if began is None or not began[1]:
            return
        at, events, load = began
        took_s = (self._now() - at) / load.slowdown
        self._beginnings.append(max(LEAST_S, took_s - events / (events_per_s or DEFAULT_EVENTS_PER_S)))
