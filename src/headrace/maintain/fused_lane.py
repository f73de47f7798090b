"""The fused lane of the speed layer: partials that the workers of the append computed are merged after its commit.

It updates the versions that DuckDB can compute and that are near the end of the log. The others, and commits whose
partials are lost, are left to `speed_layer.py`: Spark over the lake's files.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog

from headrace.define.model import Stream
from headrace.define.relation import Join
from headrace.engine.duckdb_relations import refuse_duckdb
from headrace.errors import ConflictError
from headrace.faults import fault_point
from headrace.lake.delta_table import LakeState, LakeTable
from headrace.lake.table_schema import Pins
from headrace.maintain.lift import LiftedPart, LiftedView, Lifting, lift_view, parts_of
from headrace.maintain.speed_step import apply_step, make_step
from headrace.maintain.table_snapshots import TableSnapshots
from headrace.maintain.table_versions import TableAt
from headrace.name_encoding import encode_name
from headrace.store.partial_columns import partials_of
from headrace.store.store_contract import Store
from headrace.store.version import Base, Version, VersionId
from headrace.timing import Timing

MOST_COMMITS = 64  # that a version may be behind, and whose partials wait for their merge
MOST_KEPT = 1_000  # … of a version that is being built: some minutes
RETRY_S = 60.0  # how long Spark computes a version after DuckDB failed to, or all of them after a failed append

log = structlog.get_logger("headrace.fused")


@dataclass(frozen=True)
class Failure:
    """A failure of DuckDB to compute a version."""

    reason: str
    retry_at: float  # when the fused lane takes the version again


@dataclass
class _Commit:
    """The partials of one commit that are not merged yet."""

    number: int
    patience_ms: dict[VersionId, int] = field(default_factory=dict)  # by the home of the version, as in `parts`
    parts: dict[VersionId, list[LiftedPart]] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)


class Fused:
    """The fused lane of one stream: `plan`, `offer` and `withdraw` belong to the append, the rest to maintain.

    Partials and failures belong to the home of a version, so a free edit, which takes over the rows, also takes them
    over.
    """

    def __init__(
        self,
        stream: str,
        table: LakeTable,
        store: Store,
        scratch: Path,
        *,
        is_suspect: Callable[[Version], bool] = lambda version: False,
        tables: TableSnapshots | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._stream = stream
        self._table = table
        self._store = store
        self._folder = scratch / f"fused-{encode_name(stream)}"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._is_suspect = is_suspect
        self._tables = tables
        self._now = now
        self._lock = threading.Lock()
        self._merging = threading.Lock()
        self._commits: dict[int, _Commit] = {}
        self._planned: _Commit | None = None  # the one that workers compute
        self.failures: dict[VersionId, Failure] = {}  # the last ones, by the home of the version
        self._paused_until = 0.0
        self.merge_times = Timing()

    def lanes(self, stream: Stream, versions: Iterable[Version]) -> dict[VersionId, str | None]:
        """Why Spark updates each of these versions; None: the fused lane does. Those that neither updates are left out.

        If Spark has to compute one version of a view, it computes all of them: a new one catches up with the old one
        only if both use the same lane.
        """
        updated = [version for version in versions if version.view.fits(stream) and not version.quarantined]
        causes: dict[str, tuple[int, str]] = {}  # by view: the version that needs Spark, and why
        own: dict[VersionId, str] = {}  # of one that is being built: nobody has to catch up with it
        for version in updated:
            reason = None if self._base(version).stalled else self._refuse(stream, version)
            if reason is not None and version.moves:
                causes.setdefault(version.view.name, (version.number, reason))
            elif reason is not None:
                own[version.id] = reason
        pause = self._pause_reason(updated)
        return {v.id: _cause(v, causes) or own.get(v.id) or pause or self._delay_reason(v) for v in updated}

    def _refuse(self, stream: Stream, version: Version) -> str | None:
        """The reason why DuckDB shall not compute a version."""
        reason = refuse_duckdb(stream, version.view)
        if reason is None and (joins := self._joins(version)):
            reason = self._tables.refuse(joins) if self._tables else "only Spark computes joins here"
        if reason is not None:
            return reason
        failure = self.failures.get(_home(version))
        if failure is not None and not version.moves:
            return f"DuckDB failed: {failure.reason}"  # its build may fail, too: commits wait for it only once
        if failure is not None and failure.retry_at > self._now():
            return f"DuckDB failed: {failure.reason}; it is retried after {RETRY_S:.0f} s"
        return "Java ended while it was computed" if self._is_suspect(version) else None

    def _pause_reason(self, versions: Iterable[Version]) -> str | None:
        if self._now() < self._paused_until:
            return f"an append failed; the fused lane is used again after {RETRY_S:.0f} s"
        moving = {_home(version) for version in versions if version.moves}
        with self._lock:
            waiting = sum(not moving.isdisjoint(entry.parts) for entry in self._commits.values())
        return "too many commits wait for their merge" if waiting >= MOST_COMMITS else None

    def _delay_reason(self, version: Version) -> str | None:
        base = self._base(version)
        if base.stalled:
            return "it is stalled"
        behind, most = self._table.state.next_commit - base.applied_to, MOST_COMMITS if version.moves else MOST_KEPT
        return f"it is {behind:,} commits behind" if behind > most else None

    # The append

    def plan(self, stream: Stream, at: LakeState, pins: Pins) -> Lifting | None:
        """The views whose partials the workers shall compute."""
        self._planned = None
        versions = self._versions()
        lanes = self.lanes(stream, versions)
        commit, views = _Commit(at.next_commit), list[LiftedView]()
        for version in versions:
            if version.id not in lanes or lanes[version.id] is not None:
                continue
            assert version.home is not None, "it moves"
            tables = self._tables_at(version, at.next_commit, pins)
            if tables is None:
                continue
            patience_ms = self._base(version).patience_ms
            view = lift_view(stream, version.view, version.home, patience_ms, at.time_us)
            views.append(replace(view, tables=tables))
            commit.patience_ms[_home(version)] = patience_ms
        if not views:
            return None
        self._planned = commit
        return Lifting(tuple(views), str(self._folder))

    def _joins(self, version: Version) -> list[Join]:
        relation = version.view.relation
        branches = relation.branches_of(self._stream) if relation else ()
        return [join for branch in branches for join in branch.joins]

    def _tables_at(self, version: Version, commit: int, pins: Pins) -> tuple[TableAt, ...] | None:
        """The tables that a version's rows are joined to; None if one is not at hand at its pin: Spark joins them."""
        tables: dict[str, TableAt] = {}
        for join in self._joins(version):
            pin = version.pinned.version(self._stream, commit, pins, join.log.stream)
            table = self._tables.at(join, pin) if self._tables else None
            if table is None:
                return None
            tables[table.side.name] = table
        return tuple(tables.values())

    def offer(self, commit: int, derived: Sequence[str]) -> None:
        """Keep the partials for the merge, which follows the commit."""
        planned, self._planned = self._planned, None
        if planned is None or planned.number != commit:
            return
        parts = parts_of(derived)
        planned.paths = {part.path for part in parts if part.path}
        planned.parts = {home: [] for home in planned.patience_ms}
        for part in parts:
            if part.error is not None:
                planned.parts.pop(part.home, None)
                self._note_failure(part.home, part.error)
            elif part.home in planned.parts:
                planned.parts[part.home].append(part)
        with self._lock:
            self._commits[commit] = planned

    def _note_failure(self, home: VersionId, reason: str) -> None:
        with self._lock:
            self.failures[home] = Failure(reason, self._now() + RETRY_S)
        view, number = home
        log.info("computed by Spark instead", stream=self._stream, view=view, home=number, reason=reason)

    def withdraw(self, commit: int) -> None:
        """The append failed. In case the aggregation was the reason, the next ones run without it for a while."""
        if self._planned is not None and self._planned.number == commit:
            self._planned, self._paused_until = None, self._now() + RETRY_S
        with self._lock:
            self._delete(self._commits.pop(commit, None))

    # Maintain

    def between_merges(self) -> AbstractContextManager[Any]:
        """Keep versions where they are, and their partials here, until the block ends."""
        return self._merging

    def next_commit(self, version: Version, commit: int) -> int | None:
        """The first commit from this one on whose partials of a version are here."""
        with self._lock:
            return min((at for at in self._commits if at >= commit and self._has(version, at)), default=None)

    def run_once(self) -> bool:
        """Merge what has been committed; returns whether a version was updated."""
        with self._merging:
            versions = self._versions()
            self._forget_failures(versions)
            return self._merge_all([version for version in versions if not version.quarantined])

    def _merge_all(self, versions: Sequence[Version]) -> bool:
        """The most advanced versions first: they answer, and those that were built meanwhile have many commits."""
        self._clean(versions)
        groups: dict[tuple[int, int], list[Version]] = {}
        for version in filter(lambda version: version.moves, versions):
            start = self._base(version).applied_to
            end = min(self._chain_end(version, start), start + MOST_COMMITS)
            if end > start:
                groups.setdefault((start, end), []).append(version)
        merges = [self._merge(commits, groups[commits]) for commits in sorted(groups, reverse=True)]
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
            failed = apply_step(self._store, make_step(self._stream, self._table, *commits, self._now()), good)
        except ConflictError:
            return True  # a version was edited meanwhile: nothing was merged, and the next round sees it
        for version in versions:
            if version.id in good:
                self._forget(version, commits)
            if version.id in failed:  # Spark computes it next, and says why it is stalled
                self._note_failure(_home(version), failed[version.id])
        self.merge_times.note(time.monotonic() - began)
        return True

    def _read(self, version: Version, commits: tuple[int, int]) -> list[pa.Table] | None:
        with self._lock:
            parts = [part for commit in range(*commits) for part in self._commits[commit].parts[_home(version)]]
        names = {name for name, _ in partials_of(version.view)}
        tables = [table for part in parts if (table := part.read()) is not None and names.issubset(table.column_names)]
        return tables if len(tables) == len(parts) else None

    def _versions(self) -> list[Version]:
        return [version for version in self._store.versions() if version.reads(self._stream) and version.collects]

    def _base(self, version: Version) -> Base:
        return version.base(self._stream)

    def _chain_end(self, version: Version, commit: int) -> int:
        """The end of the commits that follow each other from here on and whose partials are here."""
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

    def _forget_failures(self, versions: Sequence[Version]) -> None:
        """Forget those of versions that were dropped, or are no longer updated."""
        homes = set(map(_home, versions))
        with self._lock:
            self.failures = {home: failure for home, failure in self.failures.items() if home in homes}

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


def _cause(version: Version, causes: Mapping[str, tuple[int, str]]) -> str | None:
    """The reason why Spark computes the version's view."""
    number, reason = causes.get(version.view.name, (version.number, None))
    return reason if number == version.number else f"version {number} of the view needs Spark: {reason}"


def _home(version: Version) -> VersionId:
    return version.view.name, version.home or 0
