"""Views in one DuckDB file and a file for each batch table: one process writes, several threads read beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import duckdb

from headrace.define.model import View
from headrace.errors import FencedError
from headrace.faults import fault_point
from headrace.store.base import START, Audit, BatchTable, Comparison, Point, Step, Version, VersionId, never
from headrace.store.changes import Changes
from headrace.store.duckdb.database import Database, run
from headrace.store.duckdb.folder import clean, compare_layers, faults_of, make_table
from headrace.store.duckdb.snapshot import DuckSnapshot, speed_tables
from headrace.store.duckdb.tables import create_speed, merge_files, quoted, speed_table
from headrace.store.duckdb.versions import (
    FENCED,
    batch_text,
    change,
    gone,
    insert_audit,
    insert_version,
    next_number,
    now_us,
    position_text,
    read_version,
    read_versions,
)

MOVE = """
UPDATE versions SET applied_to = $to, position = $position, newest_us = $newest, applied_at_us = $at
WHERE view = $view AND number = $number AND applied_to = $from AND fence = $fence AND state <> 'retired'
"""
UNSERVED = ("registered", "building", "ready")
REVIVED = {"state": "ready", "stalled": None, "quarantined": False}


class DuckStore:
    """The store of a workspace. Every write checks the fence it was opened with."""

    def __init__(self, database: Database, fence: int) -> None:
        self._database = database
        self._fence = fence
        self._writing = threading.Lock()
        # What is committed; None if it is not known which side of a commit a reader sees.
        self._committed: list[Version] | None = None
        self._leaving: list[str] = []  # files of batch tables that the transaction under way lets go

    @classmethod
    def open(
        cls, path: str | Path, fence: int, read_only: bool = False, *, batch_folder: Path | None = None
    ) -> DuckStore:
        """Open or make the file; a writer takes over from every writer with a lower fence."""
        folder = batch_folder or Path(path).with_name("batch")
        store = cls(Database(Path(path), folder, fence, read_only=read_only), fence)
        try:
            with store.snapshot() as snapshot:
                store._committed = snapshot.versions()
        except BaseException:
            store.close()
            raise
        return store

    @property
    def batch_folder(self) -> Path:
        """Where the files of batch tables are."""
        return self._database.batch_folder

    # From registered to serving

    def register(self, view: View, fingerprint: str, patience_ms: int, at: Point = START) -> Version:
        with self._transaction() as connection:
            own = [v for v in read_versions(connection) if v.view.name == view.name]
            self._remove_unserved(connection, view.name)
            number = next_number(connection, view.name)
            serving = next((version.number for version in own if version.serving), None)
            version = Version(
                view,
                number,
                fingerprint,
                patience_ms,
                "registered" if at.commit else "serving" if serving is None else "ready",
                horizon=at.commit,
                applied_to=at.commit,
                position=at.position,
                newest_us=at.newest_us,
                applied_at_us=now_us(),
                changed_at_us=now_us(),
                home=number,
                replaces=serving,
            )
            run(connection, create_speed(view, speed_table(view.name, number, at.commit)))
            insert_version(connection, version, self._fence)
        return version

    def adopt(self, view: View, fingerprint: str, patience_ms: int, number: int) -> Version:
        fault_point("edit.before_commit")
        with self._transaction() as connection:
            taken = self._expect(connection, view.name, number, *UNSERVED, "serving")
            version = replace(
                taken,
                view=view,
                number=next_number(connection, view.name),
                fingerprint=fingerprint,
                patience_ms=patience_ms,
                patience_from=taken.patience_from if patience_ms == taken.patience_ms else taken.applied_to,
                changed_at_us=now_us(),
                stalled=None,  # the edit may have mended it
                quarantined=False,
                replaces=taken.number if taken.serving else taken.replaces,
            )
            insert_version(connection, version, self._fence)
            if taken.serving:
                self._remove_unserved(connection, view.name)
                change(connection, self._fence, taken, state="retired", home=None, batch="[]")
            else:
                self._delete(connection, taken)
        fault_point("edit.after_commit")
        return version

    def build(self, view: str, number: int, built_to: int) -> None:
        with self._transaction() as connection:
            version = self._expect(connection, view, number, "registered", "building")
            begun = {} if version.state == "building" else {"state": "building"}
            change(connection, self._fence, version, built_to=built_to, **begun)

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

    def fill(self, view: str, number: int, table: BatchTable) -> None:
        fault_point("fill.before_commit")
        with self._transaction() as connection:
            version = self._expect(connection, view, number, "building")
            if (table.from_commit, table.to_commit) != (0, version.horizon):
                raise gone(view, number, f"horizon {version.horizon}")
            change(connection, self._fence, version, state="ready", batch=batch_text([table]))
        fault_point("fill.after_commit")

    def promote(self, view: str, number: int) -> None:
        with self._transaction() as connection:
            version = self._expect(connection, view, number, "ready")
            if not version.whole:
                raise gone(view, number, "not all of its rows are there")
            old = _serving(connection, view)
            if old is not None:
                if version.applied_to < old.applied_to:  # answers never lack commits that they have had
                    raise gone(view, number, f"commit {version.applied_to}, behind {old.applied_to} of the old one")
                change(connection, self._fence, old, state="retired")
            change(connection, self._fence, version, state="serving", replaces=old and old.number)
            fault_point("swap.before_commit")
        fault_point("swap.after_commit")

    def revive(self, view: str, number: int) -> None:
        with self._transaction() as connection:
            version = self._expect(connection, view, number, "retired")
            if not version.whole:
                raise gone(view, number, "its rows are gone")
            self._remove_unserved(connection, view)
            old = _serving(connection, view)
            change(connection, self._fence, version, **REVIVED, replaces=old and old.number)

    # The speed layer

    def apply(self, step: Step, partials: Mapping[VersionId, Sequence[str]]) -> Changes:
        with self._transaction() as connection:
            for view, number in partials:
                self._move(connection, step, view, number)
            fault_point("store.before_merge")
            for (view, number), files in partials.items():
                if files:
                    _merge(connection, read_version(connection, view, number), files)
            fault_point("store.before_commit")
        fault_point("store.after_commit")
        return Changes(step, partials)

    def _move(self, connection: duckdb.DuckDBPyConnection, step: Step, view: str, number: int) -> None:
        moved = run(
            connection,
            MOVE,
            {
                "to": step.to_commit,
                "position": position_text(step.position),
                "newest": step.newest_us,
                "at": step.at_us,
                "view": view,
                "number": number,
                "from": step.from_commit,
                "fence": self._fence,
            },
        )
        if moved == [(1,)]:
            return
        found = "SELECT applied_to, fence, state FROM versions WHERE view = ? AND number = ?"
        at = run(connection, found, [view, number])
        if not at or at[0][2] == "retired":
            raise gone(view, number, "an edit took its rows, or another version serves" if at else "no such version")
        raise FencedError(
            f"view '{view}' version {number}: commits [{step.from_commit}, {step.to_commit}) of stream "
            f"'{step.stream}' were not merged",
            found="commit {} and fence {} in the store".format(*at[0]),
            expected=f"commit {step.from_commit} and fence {self._fence}",
            fix=FENCED,
        )

    def stall(self, view: str, number: int, error: str | None, *, quarantined: bool = False) -> None:
        with self._transaction() as connection:
            version = read_version(connection, view, number)
            change(connection, self._fence, version, stalled=error, quarantined=quarantined)

    # The beat

    def begin_beat(self, view: str, number: int) -> Version:
        fault_point("beat.before_begin")
        with self._transaction() as connection:
            version = self._expect(connection, view, number, "serving")
            if version.next_horizon is not None or version.home is None or version.applied_to <= version.horizon:
                raise gone(view, number, "nothing that a beat could take, or one under way")
            run(connection, create_speed(version.view, speed_table(view, version.home, version.applied_to)))
            change(connection, self._fence, version, next_horizon=version.applied_to)
            begun = replace(version, next_horizon=version.applied_to)
        fault_point("beat.after_begin")
        return begun

    def compare(
        self, version: Version, partials: Sequence[Path], evidence: Path, *, stopping: Callable[[], bool] = never
    ) -> Comparison:
        with self.snapshot() as snapshot:
            snapshot.export_speed(version, evidence)
        comparison = compare_layers(version, evidence, partials, stopping)
        if not comparison.drift:
            evidence.unlink()
        return comparison

    def end_beat(self, version: Version, tables: Sequence[BatchTable], audit: Audit) -> None:
        fault_point("beat.before_end")
        with self._transaction() as connection:
            now = self._during_beat(connection, version)
            run(connection, f"DROP TABLE {quoted(speed_tables(now)[0])}")
            moved = {"horizon": now.next_horizon, "next_horizon": None, "alarm": None}
            change(connection, self._fence, now, batch=batch_text(tables), **moved)
            insert_audit(connection, audit)
            kept = {table.file for table in tables}
            self._leaving += [table.file for table in now.batch if table.file not in kept]
        fault_point("beat.after_end")

    def refuse_beat(self, version: Version, audit: Audit) -> None:
        off = "; ".join(f"{drift.column}: {drift.rows:,} rows, such as {drift.example}" for drift in audit.drift)
        alarm = f"the two layers disagree over commits [{audit.from_commit}, {audit.to_commit}): {off}"
        with self._transaction() as connection:
            change(connection, self._fence, self._during_beat(connection, version), alarm=alarm)
            insert_audit(connection, audit)

    def _during_beat(self, connection: duckdb.DuckDBPyConnection, version: Version) -> Version:
        now = read_version(connection, version.view.name, version.number)
        same = (now.horizon, now.next_horizon, now.home) == (version.horizon, version.next_horizon, version.home)
        if not same or now.next_horizon is None:
            raise gone(version.view.name, version.number, f"horizon {now.horizon}, next {now.next_horizon}")
        return now

    # The end

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

    def _remove_unserved(self, connection: duckdb.DuckDBPyConnection, view: str) -> None:
        for version in read_versions(connection):
            if version.view.name == view and version.state in UNSERVED:
                self._remove(connection, version)

    def _remove(self, connection: duckdb.DuckDBPyConnection, version: Version) -> None:
        """With its tables. A file goes when the transaction is committed and nobody reads it any more."""
        for table in speed_tables(version):
            run(connection, f"DROP TABLE {quoted(table)}")
        self._delete(connection, version)
        self._leaving += [table.file for table in version.batch]

    def _delete(self, connection: duckdb.DuckDBPyConnection, version: Version) -> None:
        change(connection, self._fence, version, stalled=None)  # only the writer may
        run(connection, "DELETE FROM versions WHERE view = ? AND number = ?", [version.view.name, version.number])

    def _expect(self, connection: duckdb.DuckDBPyConnection, view: str, number: int, *states: str) -> Version:
        version = read_version(connection, view, number)
        if version.state not in states:
            raise gone(view, number, f"state {version.state}")
        return version

    # Connections

    @contextmanager
    def snapshot(self) -> Iterator[DuckSnapshot]:
        with self._database.use(), self._database.reader() as connection:
            connection.begin()
            try:
                known = self._committed
                run(connection, "SELECT 1 FROM versions LIMIT 0")  # the transaction's sight begins here
                yield DuckSnapshot(connection, self._database, known if self._committed is known else None)
            finally:
                with suppress(duckdb.Error):  # of an invalid database: the failure before it is the one to tell
                    connection.rollback()

    @contextmanager
    def _transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._writing, self._database.use():
            self._leaving = []
            connection = self._database.writer
            connection.begin()
            try:
                yield connection
                after = read_versions(connection)
            except BaseException:
                with suppress(duckdb.Error):
                    connection.rollback()
                raise
            self._committed = None
            connection.commit()  # if this fails, each reader looks for itself what became of it
            self._committed = after
            self._database.release(self._leaving)

    def close(self) -> None:
        self._database.close()


def _serving(connection: duckdb.DuckDBPyConnection, view: str) -> Version | None:
    return next((v for v in read_versions(connection) if v.serving and v.view.name == view), None)


def _merge(connection: duckdb.DuckDBPyConnection, version: Version, files: Sequence[str]) -> None:
    stage, *writes = merge_files(version.view, speed_tables(version)[-1])
    run(connection, stage, {"files": [str(file) for file in files]})
    for write in writes:
        run(connection, write)
