"""Views in one DuckDB file and a file for each batch table: one process writes, several threads read beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb

from headrace.define.model import View
from headrace.duckdb_connections import run
from headrace.engine.duckdb_terms import duckdb_name
from headrace.errors import FencedError
from headrace.faults import fault_point
from headrace.store.duckdb.batch_folder import clean, compare_layers, compare_with_table, faults_of, make_table
from headrace.store.duckdb.change_log import LogWriter, forget_log, read_followers
from headrace.store.duckdb.database import Database
from headrace.store.duckdb.duckdb_reader import DuckReader
from headrace.store.duckdb.merge_step import merge, move
from headrace.store.duckdb.snapshot import DuckSnapshot, find_serving, speed_tables, speed_tables_of, table_sources
from headrace.store.duckdb.stored_texts import StoredTexts
from headrace.store.duckdb.table_sql import create_speed
from headrace.store.duckdb.table_view_audit import export_rows, export_speed
from headrace.store.duckdb.table_view_cells import drop_rows
from headrace.store.duckdb.table_views import TableViews
from headrace.store.duckdb.version_rows import (
    FENCED,
    adopted_base,
    batch_text,
    change,
    change_base,
    commits_text,
    delete_version,
    gone,
    insert_audit,
    insert_version,
    next_number,
    now_us,
    read_version,
    read_versions,
    starting_base,
)
from headrace.store.step_changes import Changes
from headrace.store.store_contract import Audit, Comparison, Partials, Step, never
from headrace.store.version import NO_HISTORY, NOT_PINNED, START, Base, BatchTable, Pinned, Point, Version, VersionId
from headrace.timing import later

NUMBER = "number"  # the highest one of a view's versions, as it is kept
UNSERVED = ("registered", "building", "ready")


class DuckStore(DuckReader):
    """The store of a workspace. Every write checks the fence it was opened with."""

    def __init__(self, database: Database, fence: int, texts: StoredTexts) -> None:
        self._fence = fence
        self._log = LogWriter()
        super().__init__(database, texts)
        self._transaction = self._transactions.write
        self._table_views = TableViews(database, fence, self._transaction, self._next_number, self._note)

    @classmethod
    def open(cls, path: str | Path, fence: int, *, batch_folder: Path | None = None) -> DuckStore:
        """Open or make the file; take over from every writer with a lower fence."""
        folder = batch_folder or Path(path).with_name("batch")
        return cls(Database(Path(path), folder, fence, read_only=False), fence, StoredTexts(Path(path).parent, fence))

    def _begin(self, snapshot: DuckSnapshot) -> None:
        super()._begin(snapshot)
        self._log.followed = frozenset(each.view for each in snapshot.followers())

    @property
    def batch_folder(self) -> Path:
        """The folder of the files of batch tables."""
        return self._database.batch_folder

    # From registered to serving

    def register(
        self,
        view: View,
        fingerprint: str,
        patience_ms: Mapping[str, int],
        at: Mapping[str, Point] = NO_HISTORY,
        pinned: Pinned = NOT_PINNED,
    ) -> Version:
        at = at if view.over is None else NO_HISTORY  # a view over a table has no history of its own
        bases = tuple(
            starting_base(stream, patience_ms[stream], at.get(stream, START), own_time=view.has_own_time(stream))
            for stream in view.streams
        )
        history = any(base.horizon for base in bases) or view.over is not None
        with self._transaction() as connection:
            own = read_versions(connection, view.name)
            self._remove_unserved(connection, own)
            number = self._next_number(connection, view.name)
            serving = next((version.number for version in own if version.serving), None)
            version = Version(
                view,
                number,
                fingerprint,
                "registered" if history else "serving" if serving is None else "ready",
                bases,
                changed_at_us=now_us(),
                home=number,
                replaces=serving,
                pinned=pinned,
            )
            for table in speed_tables(version):
                run(connection, create_speed(view, table))
            insert_version(connection, version, self._fence)
        if view.over is None:
            self._make_over(view.name)
            return version
        self.make_over_tables()
        with self.snapshot() as snapshot:
            return max((each for each in snapshot.versions() if each.view.name == view.name), key=lambda v: v.number)

    def make_over_tables(self) -> None:
        self._table_views.make(self._committed)

    def _make_over(self, table: str) -> None:
        """Follow a version of a view that now serves: if it is a table, the views over it are made of that."""
        self._table_views.make(self._committed, table)

    def adopt(self, view: View, fingerprint: str, patience_ms: Mapping[str, int], number: int) -> Version:
        fault_point("edit.before_commit")
        with self._transaction() as connection:
            source = self._expect(connection, view.name, number, *UNSERVED, "serving")
            version = replace(
                source,
                view=view,
                number=self._next_number(connection, view.name),
                fingerprint=fingerprint,
                bases=tuple(adopted_base(base, patience_ms[base.stream]) for base in source.bases),
                changed_at_us=now_us(),
                replaces=source.number if source.serving else source.replaces,
            )
            insert_version(connection, version, self._fence)
            if source.serving:
                self._remove_unserved(connection, read_versions(connection, view.name))
                change(connection, self._fence, source, state="retired", home=None)
                for base in source.bases:
                    change_base(connection, self._fence, source, base.stream, batch=batch_text(()))
            else:
                self._delete(connection, source)
        fault_point("edit.after_commit")
        self._make_over(view.name)
        return version

    def build(self, view: str, number: int, stream: str, built_to: int) -> None:
        with self._transaction() as connection:
            version = self._expect(connection, view, number, "registered", "building")
            if version.state != "building":
                change(connection, self._fence, version, state="building")
            change_base(connection, self._fence, version, stream, built_to=built_to)

    def make_batch_table(
        self,
        version: Version,
        commits: tuple[int, int],
        partials: Sequence[Path],
        earlier: Sequence[BatchTable] = (),
        *,
        stopping: Callable[[], bool] = never,
    ) -> BatchTable:
        return make_table(self.batch_folder, version, commits, partials, earlier, stopping)

    def fill(self, view: str, number: int, stream: str, table: BatchTable) -> None:
        fault_point("fill.before_commit")
        with self._transaction() as connection:
            version = self._expect(connection, view, number, "building")
            base = version.base(stream)
            horizon = base.horizon
            if (table.from_commit, table.to_commit) != (0, horizon):
                raise gone(view, number, f"horizon {horizon}")
            newest_us = later(base.newest_us, table.newest_us)
            change_base(connection, self._fence, version, stream, batch=batch_text([table]), newest_us=newest_us)
            if all(base.built for base in version.bases if base.stream != stream):
                change(connection, self._fence, version, state="ready")
        fault_point("fill.after_commit")

    def promote(self, view: str, number: int) -> None:
        with self._transaction() as connection:
            version = self._expect(connection, view, number, "ready")
            if not version.complete:
                raise gone(view, number, "not all of its rows are there")
            old = _serving(connection, view)
            if old is not None:
                if version.lags(old):  # answers never lack commits that they have had
                    raise gone(view, number, f"{commits_text(version)}; the serving version has {commits_text(old)}")
                change(connection, self._fence, old, state="retired")
            change(connection, self._fence, version, state="serving", replaces=old and old.number)
            fault_point("swap.before_commit")
        fault_point("swap.after_commit")
        self._make_over(view)

    def revive(self, view: str, number: int) -> None:
        with self._transaction() as connection:
            version = self._expect(connection, view, number, "retired")
            if not version.complete:
                raise gone(view, number, "its rows were deleted")
            self._remove_unserved(connection, read_versions(connection, view))
            old = _serving(connection, view)
            change(connection, self._fence, version, state="ready", replaces=old and old.number)
            for base in version.bases:
                change_base(connection, self._fence, version, base.stream, stalled=None, quarantined=False)
        if version.view.over is not None:
            self.make_over_tables()

    # The speed layer

    def apply(self, step: Step, partials: Mapping[VersionId, Partials]) -> Changes:
        over = {version.view.over.table for version in self._committed if version.view.over}
        with self._table_views.in_order if any(view in over for view, _ in partials) else nullcontext():
            self._apply(step, partials)
            committed = self._committed
            moved = [each.view.name for each in committed if each.id in partials and each.serving]
            self._table_views.follow(committed, step, moved)
        return Changes(step, partials)

    def _apply(self, step: Step, partials: Mapping[VersionId, Partials]) -> None:
        with self._transaction() as connection:
            # Nobody else writes meanwhile: what was committed last is what this transaction sees.
            versions = {version.id: version for version in self._committed or read_versions(connection)}
            for view, number in partials:
                if (view, number) not in versions:
                    raise gone(view, number)
            move(connection, step, [versions[id] for id in partials], self._fence)
            fault_point("store.before_merge")
            for id, parts in partials.items():
                self._table_views.stage(connection, list(versions.values()), versions[id], parts)
                notes = self._note(connection, versions[id], step), self._transactions.overlay(connection, versions[id])
                merge(connection, versions[id], step.stream, parts, [note for note in notes if note])
            fault_point("store.before_commit")
        fault_point("store.after_commit")

    def _note(
        self, connection: duckdb.DuckDBPyConnection, version: Version, step: Step
    ) -> Callable[[str | None], None] | None:
        """The function that logs the cells of a step; None if nobody follows the view."""
        if version.view.name not in self._log.followed or not version.serving:
            return None
        before = version.total("applied_to")
        ticks = before, before + step.to_commit - step.from_commit
        sources = table_sources(self._database, version) if version.view.has_sessions else []
        return partial(self._log.note, connection, version, ticks, step.at_us, sources)

    # Followers

    def follow(self, view: str, name: str) -> None:
        with self._transaction() as connection:
            self._check_fence(connection)
            followers = read_followers(connection)
            if (view, name) not in {(each.view, each.name) for each in followers}:
                run(connection, "INSERT INTO followers (view, name) VALUES (?, ?)", [view, name])
        self._log.followed |= {view}

    def advance(self, view: str, name: str, version: int, tick: int, cursor: str | None = None) -> None:
        with self._transaction() as connection:
            self._check_fence(connection)
            values = [version, tick, cursor, view, name]
            run(connection, "UPDATE followers SET number = ?, tick = ?, cursor = ? WHERE view = ? AND name = ?", values)

    def unfollow(self, view: str, name: str) -> None:
        with self._transaction() as connection:
            self._check_fence(connection)
            run(connection, "DELETE FROM followers WHERE view = ? AND name = ?", [view, name])
            followed = frozenset(each.view for each in read_followers(connection))
            if view not in followed:
                forget_log(connection, view)
        self._log.followed = followed

    def _check_fence(self, connection: duckdb.DuckDBPyConnection) -> None:
        ((highest,),) = run(connection, "SELECT max(fence) FROM versions")
        if highest is not None and highest != self._fence:
            raise FencedError(
                "the readers of a view were not recorded",
                found=f"fence {highest} in the store",
                expected=f"fence {self._fence}",
                fix=FENCED,
            )

    def stall(self, view: str, number: int, stream: str, error: str | None, *, quarantined: bool = False) -> None:
        with self._transaction() as connection:
            version = read_version(connection, view, number)
            change_base(connection, self._fence, version, stream, stalled=error, quarantined=quarantined)

    # The beat

    def begin_beat(self, view: str, number: int, stream: str) -> Version:
        fault_point("beat.before_begin")
        with self._transaction() as connection:
            version = self._expect(connection, view, number, "serving")
            base = version.base(stream)
            if base.next_horizon is not None or version.home is None or base.applied_to <= base.horizon:
                raise gone(view, number, "nothing that a beat could take, or one under way")
            change_base(connection, self._fence, version, stream, next_horizon=base.applied_to)
            version = read_version(connection, view, number)
            run(connection, create_speed(version.view, speed_tables_of(version, stream)[-1]))
        fault_point("beat.after_begin")
        return version

    def compare(
        self,
        version: Version,
        stream: str,
        partials: Sequence[Path],
        evidence: Path,
        *,
        stopping: Callable[[], bool] = never,
    ) -> Comparison:
        with self.snapshot() as snapshot:
            export_speed(snapshot, version, stream, evidence)
        comparison = compare_layers(version.view, version.base(stream), evidence, partials, stopping)
        if not comparison.drift:
            evidence.unlink()
        return comparison

    def end_beat(self, version: Version, tables: Sequence[BatchTable], audit: Audit) -> None:
        fault_point("beat.before_end")
        with self._transaction() as connection:
            base = self._during_beat(connection, version, audit.stream)
            run(connection, f"DROP TABLE {duckdb_name(speed_tables_of(version, audit.stream)[0])}")
            columns = {"horizon": base.next_horizon, "next_horizon": None, "alarm": None, "batch": batch_text(tables)}
            change_base(connection, self._fence, version, audit.stream, **columns)
            insert_audit(connection, audit)
            kept = {table.file for table in tables}
            self._transactions.release(table.file for table in base.batch if table.file not in kept)
        fault_point("beat.after_end")

    def refuse_beat(self, version: Version, audit: Audit) -> None:
        alarm = f"the two layers disagree over commits [{audit.from_commit}, {audit.to_commit}): {_off(audit)}"
        with self._transaction() as connection:
            self._during_beat(connection, version, audit.stream)
            change_base(connection, self._fence, version, audit.stream, alarm=alarm)
            insert_audit(connection, audit)

    # Views over tables

    def compare_with_table(
        self, version: Version, folder: Path, *, stopping: Callable[[], bool] = never
    ) -> tuple[Version, Comparison]:
        with ExitStack() as reading:
            with self._table_views.in_order:  # not between a step of the table and that of the views over it
                snapshot = reading.enter_context(self.snapshot())
            version = export_rows(snapshot, version, folder)
        return version, compare_with_table(version.view, folder, stopping)

    def note_audit(self, audit: Audit) -> None:
        with self._transaction() as connection:
            version = self._expect(connection, audit.view, audit.number, "serving")
            alarm = None if audit.agreed else f"it differs from the rows of its table: {_off(audit)}"
            change_base(connection, self._fence, version, audit.stream, alarm=alarm)
            insert_audit(connection, audit)

    def _during_beat(self, connection: duckdb.DuckDBPyConnection, version: Version, stream: str) -> Base:
        """The base as it is now; ConflictError if its beat is no longer the one of `version`."""
        now = read_version(connection, version.view.name, version.number)
        base, before = now.base(stream), version.base(stream)
        same = (base.horizon, base.next_horizon, now.home) == (before.horizon, before.next_horizon, version.home)
        if not same or base.next_horizon is None:
            raise gone(version.view.name, version.number, f"horizon {base.horizon}, next {base.next_horizon}")
        return base

    # Removing versions

    def forget(self, view: str, number: int) -> None:
        fault_point("retire.before_drop")
        with self._transaction() as connection:
            version = read_version(connection, view, number)
            if version.serving:
                raise gone(view, number, "it serves")
            self._remove(connection, version)
        fault_point("retire.after_drop")

    def discard(self, view: str, number: int) -> None:
        with self._transaction() as connection:
            self._remove(connection, read_version(connection, view, number))

    def drop(self, view: str) -> None:
        with self._transaction() as connection:
            for version in read_versions(connection):
                if version.view.name == view:
                    self._remove(connection, version)
            run(connection, "DELETE FROM audits WHERE view = ?", [view])

    def faults_of(self, version: Version) -> list[str]:
        return faults_of(self.batch_folder, version)

    def clean(self) -> None:
        with self.snapshot() as snapshot:
            clean(self.batch_folder, snapshot.versions())

    def _remove_unserved(self, connection: duckdb.DuckDBPyConnection, versions: Iterable[Version]) -> None:
        for version in versions:
            if version.state in UNSERVED:
                self._remove(connection, version)

    def _remove(self, connection: duckdb.DuckDBPyConnection, version: Version) -> None:
        """Remove a version with its tables; files are deleted after the commit, when nobody reads them any more."""
        for table in speed_tables(version):
            run(connection, f"DROP TABLE {duckdb_name(table)}")
        if version.view.over is not None:
            drop_rows(connection, version)
        self._delete(connection, version)
        forget_log(connection, *version.id)
        self._transactions.release(table.file for table in version.batch)

    def _delete(self, connection: duckdb.DuckDBPyConnection, version: Version) -> None:
        change(connection, self._fence, version)  # only the writer may
        delete_version(connection, version)

    def _next_number(self, connection: duckdb.DuckDBPyConnection, view: str) -> int:
        """A number that no version of the view has had, not even in a database before this one.

        Followers distinguish old changes from new ones by it.
        """
        number = next_number(connection, view, above=int(self._texts.get(NUMBER, view) or 0))
        self._texts.write(NUMBER, view, str(number))
        return number

    def _expect(self, connection: duckdb.DuckDBPyConnection, view: str, number: int, *states: str) -> Version:
        version = read_version(connection, view, number)
        if version.state not in states:
            raise gone(view, number, f"state {version.state}")
        return version

    # Texts of other parts

    def keep(self, kind: str, name: str, value: str | None) -> None:
        self._texts.write(kind, name, value)


def _serving(connection: duckdb.DuckDBPyConnection, view: str) -> Version | None:
    return find_serving(read_versions(connection, view), view)


def _off(audit: Audit) -> str:
    """The columns that disagree."""
    return "; ".join(f"{drift.column}: {drift.rows:,} rows, such as {drift.example}" for drift in audit.drift)
