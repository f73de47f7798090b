"""The fused lane of the speed layer: partials that the workers of the append computed are merged after its commit.

It takes the versions that DuckDB can compute and that are near the end of the log; the others, and whatever is lost on
the way, go through `speed.py`, by Spark over the lake's files.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog

from headrace.define.model import Stream
from headrace.errors import ConflictError
from headrace.faults import fault_point
from headrace.lake.table import LakeState, LakeTable
from headrace.maintain.lift import LiftedView, Lifting, Part, lift_view, parts_of, refuse_lift
from headrace.maintain.step import make_step
from headrace.store.base import Base, Store, Version, VersionId
from headrace.store.columns import partials_of
from headrace.timing import Timing

MOST_COMMITS = 64  # that a version may be behind, and whose partials wait for their merge
RETRY_S = 60.0  # how long Spark computes a version that DuckDB has failed to, or all of them after a failed append

log = structlog.get_logger("headrace.fused")


@dataclass
class _Commit:
    """The partials of one commit that are not merged yet."""

    parts: dict[VersionId, list[Part]]  # by the home of the version
    patience_ms: dict[VersionId, int]
    paths: set[str]


@dataclass
class _Plan:
    commit: int
    patience_ms: dict[VersionId, int] = field(default_factory=dict)


class Fused:
    """The fused lane of one stream: `plan`, `offer` and `withdraw` belong to the append, the rest to maintain.

    Partials are known by the home of their version, so a free edit, which takes over the rows, also takes them over.
    """

    def __init__(
        self,
        stream: str,
        table: LakeTable,
        store: Store,
        scratch: Path,
        *,
        is_suspect: Callable[[Version], bool] = lambda version: False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._stream = stream
        self._table = table
        self._store = store
        self._folder = scratch / f"fused-{stream}"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._is_suspect = is_suspect
        self._now = now
        self._lock = threading.Lock()
        self._merging = threading.Lock()
        self._commits: dict[int, _Commit] = {}
        self._plan: _Plan | None = None
        self._retry_at: dict[VersionId, float] = {}
        self.failures: dict[VersionId, str] = {}  # why DuckDB failed to compute a version, by its home
        self._paused_until = 0.0
        self.merge_times = Timing()

    # The append

    def plan(self, stream: Stream, at: LakeState) -> Lifting | None:
        """The views whose partials the workers shall compute."""
        self._plan = None
        if self._now() < self._paused_until or len(self._commits) >= MOST_COMMITS:
            return None
        versions = [
            version
            for version in self._versions()
            if version.view.fits(stream) and not version.quarantined and not self._base(version).stalled
        ]
        plan, views = _Plan(at.next_commit), list[LiftedView]()
        for version in self._eligible(stream, versions, at.next_commit):
            assert version.home is not None, "it moves"
            patience_ms = self._base(version).patience_ms
            views.append(lift_view(stream, version.view, version.home, patience_ms, at.newest_us))
            plan.patience_ms[_home(version)] = patience_ms
        if not views:
            return None
        self._plan = plan
        return Lifting(tuple(views), str(self._folder))

    def _eligible(self, stream: Stream, versions: Sequence[Version], commit: int) -> Iterable[Version]:
        """Those near the end, of views of which each version can be computed: a new one catches up with the old one
        only if both go the same way.
        """
        slow = {version.view.name for version in versions if not self._can_lift(stream, version)}
        for version in versions:
            near = commit - self._base(version).applied_to <= MOST_COMMITS
            if near and version.view.name not in slow:
                yield version

    def _can_lift(self, stream: Stream, version: Version) -> bool:
        failed = self._retry_at.get(_home(version), 0.0) > self._now()
        return not failed and not self._is_suspect(version) and refuse_lift(stream, version.view) is None

    def offer(self, commit: int, derived: Sequence[str]) -> None:
        """Keep the partials for the merge, which follows the commit."""
        plan, self._plan = self._plan, None
        if plan is None or plan.commit != commit:
            return
        parts: dict[VersionId, list[Part]] = {home: [] for home in plan.patience_ms}
        every = parts_of(derived)
        for part in every:
            if part.error is not None:
                parts.pop(part.home, None)
                self._note_failure(part)
            elif part.home in parts:
                parts[part.home].append(part)
        with self._lock:
            self._commits[commit] = _Commit(parts, plan.patience_ms, {part.path for part in every if part.path})

    def _note_failure(self, part: Part) -> None:
        self._retry_at[part.home] = self._now() + RETRY_S
        self.failures[part.home] = str(part.error)
        view, number = part.home
        log.info("computed by Spark instead", stream=self._stream, view=view, home=number, reason=part.error)

    def withdraw(self, commit: int) -> None:
        """The append failed. In case the aggregation was the reason, it goes on without it for a while."""
        if self._plan is not None and self._plan.commit == commit:
            self._plan, self._paused_until = None, self._now() + RETRY_S
        with self._lock:
            self._delete(self._commits.pop(commit, None))

    # Maintain

    def between_merges(self) -> AbstractContextManager[Any]:
        """While it is held, versions stay where they are, and so do their partials here."""
        return self._merging

    def next_commit(self, version: Version, commit: int) -> int | None:
        """The first commit from this one on whose partials of a version are here."""
        with self._lock:
            return min((at for at in self._commits if at >= commit and self._has(version, at)), default=None)

    def run_once(self) -> bool:
        """Merge what has been committed; whether a version was brought on."""
        with self._merging:
            return self._merge_all([version for version in self._versions() if not version.quarantined])

    def _merge_all(self, versions: Sequence[Version]) -> bool:
        self._clean(versions)
        groups: dict[tuple[int, int], list[Version]] = {}
        for version in versions:
            start = self._base(version).applied_to
            end = self._chain_end(version, start)
            if end > start:
                groups.setdefault((start, end), []).append(version)
        merges = [self._merge(commits, group) for commits, group in sorted(groups.items(), key=lambda item: item[0])]
        return any(merges)

    def _merge(self, commits: tuple[int, int], versions: Sequence[Version]) -> bool:
        began = time.monotonic()
        tables = {version.id: self._read(version, commits) for version in versions}
        good = {id: table for id, table in tables.items() if table is not None}
        for version in versions:
            if version.id not in good:
                self._forget(version, commits)  # lost, or cut: it catches up from the lake
        if not good:
            return False
        fault_point("fused.before_merge")
        try:
            self._store.apply(make_step(self._stream, self._table, *commits, self._now()), good)
        except ConflictError:
            return True  # a version was edited meanwhile: nothing was merged, and the next round sees it
        for version in versions:
            if version.id in good:
                self._forget(version, commits)
        self.merge_times.note(time.monotonic() - began)
        return True

    def _read(self, version: Version, commits: tuple[int, int]) -> list[pa.Table] | None:
        with self._lock:
            parts = [part for commit in range(*commits) for part in self._commits[commit].parts[_home(version)]]
        names = {name for name, _ in partials_of(version.view)}
        tables = [table for part in parts if (table := part.read()) is not None and names.issubset(table.column_names)]
        return tables if len(tables) == len(parts) else None

    def _versions(self) -> list[Version]:
        with self._store.snapshot() as snapshot:
            versions = snapshot.versions()
        return [version for version in versions if version.reads(self._stream) and version.moves]

    def _base(self, version: Version) -> Base:
        return version.base(self._stream)

    def _chain_end(self, version: Version, commit: int) -> int:
        """Where the commits end that follow each other from here on and whose partials are here."""
        end = self._table.state.next_commit
        with self._lock:
            while commit < end and self._has(version, commit):
                commit += 1
        return commit

    def _has(self, version: Version, commit: int) -> bool:
        entry, home = self._commits.get(commit), _home(version)
        return (
            entry is not None
            and home in entry.parts
            and entry.patience_ms[home] == self._base(version).patience_ms  # an edit may change it
        )

    def _forget(self, version: Version, commits: tuple[int, int]) -> None:
        with self._lock:
            for commit in range(*commits):
                self._commits[commit].parts.pop(_home(version), None)

    def _clean(self, versions: Sequence[Version]) -> None:
        """Delete the files of commits that no version needs any more."""
        applied = {_home(version): self._base(version).applied_to for version in versions}
        with self._lock:
            for commit, entry in list(self._commits.items()):
                if commit < self._table.state.next_commit and not any(
                    applied.get(home, commit + 1) <= commit for home in entry.parts
                ):
                    self._delete(self._commits.pop(commit))

    def _delete(self, entry: _Commit | None) -> None:
        for path in entry.paths if entry else ():
            Path(path).unlink(missing_ok=True)


def _home(version: Version) -> VersionId:
    return version.view.name, version.home or 0
