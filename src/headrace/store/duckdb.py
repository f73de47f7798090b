"""Views in one DuckDB file: one process writes, several threads read beside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from headrace.define.fingerprint import from_json, to_json
from headrace.define.model import View
from headrace.errors import FencedError
from headrace.faults import fault_point
from headrace.store.base import Selection, Step, Version
from headrace.store.database import Database, run
from headrace.store.few import fold_few
from headrace.store.tables import create_speed, few, fold, merge_files, nth_bucket, quoted, speed_table

READ_VERSIONS = """
SELECT definition, number, fingerprint, patience_ms, applied_to, position, newest_us, applied_at_us, serving, stalled
FROM versions ORDER BY view, number
"""
MOVE = """
UPDATE versions SET applied_to = $to, position = $position, newest_us = $newest, applied_at_us = $at
WHERE view = $view AND number = $number AND applied_to = $from AND fence = $fence
"""
FEW = 4_000  # rows that are folded in Python
PIECE = 20_000  # rows that are read at once: sketches have up to 4 kB each
OF_VERSION = "WHERE view = ? AND number = ? AND fence = ?"


@lru_cache(maxsize=1024)
def _view(definition: str) -> View:
    view = from_json(orjson.loads(definition))
    assert isinstance(view, View), "only views are stored"
    return view


class DuckSnapshot:
    """One transaction that only reads."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, known: list[Version] | None) -> None:
        self._connection = connection
        self._known = known  # the versions as this transaction sees them; None: not read yet

    def versions(self) -> list[Version]:
        if self._known is None:
            self._known = _read_versions(self._connection)
        return list(self._known)

    def serving(self, view: str) -> Version | None:
        return next((v for v in self.versions() if v.serving and v.view.name == view), None)

    def count(self, version: Version) -> int:
        counts = [run(self._connection, f"SELECT count(*) FROM {quoted(t)}")[0][0] for t in _tables(version)]
        return int(sum(counts))

    def fold(self, version: Version, selection: Selection) -> pa.Table:
        query, parameters = fold(version.view, _tables(version), selection)
        return self._connection.sql(query, params=parameters).to_arrow_table()

    def pieces(self, version: Version, selection: Selection, *, ordered: bool) -> pa.RecordBatchReader:
        query, parameters = fold(version.view, _tables(version), selection, ordered=ordered)
        return self._connection.sql(query, params=parameters).to_arrow_reader(PIECE)

    def rows(self, version: Version, selection: Selection) -> list[tuple[Any, ...]]:
        if selection.where:
            # Planning an aggregation costs DuckDB more than reading the few rows of a key.
            query, parameters = few(version.view, _tables(version), selection, FEW + 1)
            found = run(self._connection, query, parameters)
            if len(found) <= FEW:
                return fold_few(version.view, selection, found)
        elif selection.limit is not None and selection.bucket_ms is not None:
            found = self._first_rows(version, selection, selection.limit)
            if len(found) == selection.limit:
                return found
        return run(self._connection, *fold(version.view, _tables(version), selection))

    def _first_rows(self, version: Version, selection: Selection, limit: int) -> list[tuple[Any, ...]]:
        """The page from as few buckets as can hold it; shorter than the limit if those were too few.

        Buckets come first in the order, so a page that these whole buckets fill is the page of all
        of them: a large view is not folded as a whole for each of its pages.
        """
        last = run(self._connection, *nth_bucket(version.view, _tables(version), selection, limit))
        if not last:
            return []
        start, end = selection.panes
        cut = last[0][0] + selection.bucket_ms
        near = replace(selection, panes=(start, cut if end is None else min(cut, end)))
        return run(self._connection, *fold(version.view, _tables(version), near))


class DuckStore:
    """The store of a workspace in one file. Every write checks the fence it was opened with."""

    def __init__(self, database: Database, fence: int) -> None:
        self._database = database
        self._fence = fence
        self._writing = threading.Lock()
        # What is committed; None if it is not known which side of a commit a reader sees.
        self._committed: list[Version] | None = None

    @classmethod
    def open(cls, path: str | Path, fence: int, read_only: bool = False) -> DuckStore:
        """Open or make the file; a writer takes over from every writer with a lower fence."""
        store = cls(Database(Path(path), fence, read_only=read_only), fence)
        try:
            with store.snapshot() as snapshot:
                store._committed = snapshot.versions()
        except BaseException:
            store.close()
            raise
        return store

    def register(self, view: View, fingerprint: str, patience_ms: int) -> Version:
        definition = orjson.dumps(to_json(view), option=orjson.OPT_SORT_KEYS).decode()
        with self._transaction() as connection:
            ((last,),) = run(connection, "SELECT max(number) FROM versions WHERE view = ?", [view.name])
            number, first = (last or 0) + 1, last is None
            run(connection, create_speed(view, number))
            run(
                connection,
                "INSERT INTO versions VALUES (?, ?, ?, ?, ?, 0, 0, NULL, 0, ?, NULL, ?)",
                [view.name, number, definition, fingerprint, patience_ms, first, self._fence],
            )
        return Version(view, number, fingerprint, patience_ms, 0, 0, None, 0, first, None)

    def apply(self, step: Step, partials: Mapping[tuple[str, int], Sequence[str]]) -> None:
        with self._transaction() as connection:
            for view, number in partials:
                self._move(connection, step, view, number)
            fault_point("store.before_merge")
            for (view, number), files in partials.items():
                if files:
                    _merge(connection, view, number, files)
            fault_point("store.before_commit")
        fault_point("store.after_commit")

    def _move(self, connection: duckdb.DuckDBPyConnection, step: Step, view: str, number: int) -> None:
        moved = run(
            connection,
            MOVE,
            {
                "to": step.to_commit,
                "position": step.position,
                "newest": step.newest_us,
                "at": step.at_us,
                "view": view,
                "number": number,
                "from": step.from_commit,
                "fence": self._fence,
            },
        )
        if moved != [(1,)]:
            at = run(connection, "SELECT applied_to, fence FROM versions WHERE view = ? AND number = ?", [view, number])
            raise FencedError(
                f"view '{view}' version {number}: commits [{step.from_commit}, {step.to_commit}) of stream "
                f"'{step.stream}' were not merged",
                found="commit {} and fence {} in the store".format(*at[0]) if at else "no such version in the store",
                expected=f"commit {step.from_commit} and fence {self._fence}",
                fix="nothing was changed; another process has taken over, so stop this one",
            )

    def promote(self, view: str, number: int) -> None:
        with self._transaction() as connection:
            self._hit(connection, "UPDATE versions SET serving = true", view, number)
            run(connection, "UPDATE versions SET serving = false WHERE view = ? AND number <> ?", [view, number])
            older = "DELETE FROM versions WHERE view = ? AND number < ? RETURNING number"
            for (old,) in run(connection, older, [view, number]):
                run(connection, f"DROP TABLE {quoted(speed_table(view, old))}")

    def drop(self, view: str) -> None:
        with self._transaction() as connection:
            dropped = "DELETE FROM versions WHERE view = ? AND fence = ? RETURNING number"
            for (number,) in run(connection, dropped, [view, self._fence]):
                run(connection, f"DROP TABLE {quoted(speed_table(view, number))}")

    def stall(self, view: str, number: int, error: str | None) -> None:
        with self._transaction() as connection:
            self._hit(connection, "UPDATE versions SET stalled = ?", view, number, error)

    def _hit(self, connection: duckdb.DuckDBPyConnection, update: str, view: str, number: int, *values: Any) -> None:
        if run(connection, f"{update} {OF_VERSION}", [*values, view, number, self._fence]) != [(1,)]:
            raise FencedError(
                f"view '{view}' version {number} was not changed",
                found="no such version with this fence in the store",
                expected=f"fence {self._fence}",
                fix="nothing was changed; another process has taken over, so stop this one",
            )

    @contextmanager
    def snapshot(self) -> Iterator[DuckSnapshot]:
        with self._database.use(), self._database.reader() as connection:
            connection.begin()
            try:
                known = self._committed
                run(connection, "SELECT 1 FROM versions LIMIT 0")  # the transaction's sight begins here
                yield DuckSnapshot(connection, known if self._committed is known else None)
            finally:
                with suppress(duckdb.Error):  # of an invalid database: the failure before it is the one to tell
                    connection.rollback()

    @contextmanager
    def _transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._writing, self._database.use():
            connection = self._database.writer
            connection.begin()
            try:
                yield connection
                after = _read_versions(connection)
            except BaseException:
                with suppress(duckdb.Error):
                    connection.rollback()
                raise
            self._committed = None
            connection.commit()  # if this fails, each reader looks for itself what became of it
            self._committed = after

    def close(self) -> None:
        self._database.close()


def _tables(version: Version) -> list[str]:
    """Where a version's rows lie: in several tables, which never share a commit. So far one."""
    return [speed_table(version.view.name, version.number)]


def _read_versions(connection: duckdb.DuckDBPyConnection) -> list[Version]:
    return [Version(_view(row[0]), *row[1:]) for row in run(connection, READ_VERSIONS)]


def _merge(connection: duckdb.DuckDBPyConnection, view: str, number: int, files: Sequence[str]) -> None:
    found = "SELECT definition FROM versions WHERE view = ? AND number = ?"
    ((definition,),) = run(connection, found, [view, number])
    stage, *writes = merge_files(_view(definition), number)
    run(connection, stage, {"files": [str(file) for file in files]})
    for write in writes:
        run(connection, write)
