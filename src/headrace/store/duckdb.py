"""Views in one DuckDB file: one process writes, several threads read beside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from headrace.define.fingerprint import from_json, to_json
from headrace.define.model import View
from headrace.errors import CorruptionError, FencedError, WorkspaceError
from headrace.faults import fault_point
from headrace.store.base import Selection, Step, Version
from headrace.store.few import fold_few
from headrace.store.sketches import register_functions
from headrace.store.tables import create_speed, few, fold, merge_files, nth_bucket, quoted, speed_table

SETTINGS = {
    "threads": "1",
    "memory_limit": "1GB",
    "checkpoint_threshold": "64MB",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
VERSIONS = """
CREATE TABLE IF NOT EXISTS versions (
  view VARCHAR NOT NULL, number BIGINT NOT NULL, definition VARCHAR NOT NULL, fingerprint VARCHAR NOT NULL,
  patience_ms BIGINT NOT NULL, applied_to BIGINT NOT NULL, position BIGINT NOT NULL, newest_us BIGINT,
  applied_at_us BIGINT NOT NULL, serving BOOLEAN NOT NULL, stalled VARCHAR, fence BIGINT NOT NULL)
"""
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
        counts = [_run(self._connection, f"SELECT count(*) FROM {quoted(t)}")[0][0] for t in _tables(version)]
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
            found = _run(self._connection, query, parameters)
            if len(found) <= FEW:
                return fold_few(version.view, selection, found)
        elif selection.limit is not None and selection.bucket_ms is not None:
            found = self._first_rows(version, selection, selection.limit)
            if len(found) == selection.limit:
                return found
        return _run(self._connection, *fold(version.view, _tables(version), selection))

    def _first_rows(self, version: Version, selection: Selection, limit: int) -> list[tuple[Any, ...]]:
        """The page from as few buckets as can hold it; shorter than the limit if those were too few.

        Buckets come first in the order, so a page that these whole buckets fill is the page of all
        of them: a large view is not folded as a whole for each of its pages.
        """
        last = _run(self._connection, *nth_bucket(version.view, _tables(version), selection, limit))
        if not last:
            return []
        start, end = selection.panes
        cut = last[0][0] + selection.bucket_ms
        near = replace(selection, panes=(start, cut if end is None else min(cut, end)))
        return _run(self._connection, *fold(version.view, _tables(version), near))


class DuckStore:
    """The store of a workspace in one file. Every write checks the fence it was opened with."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, fence: int) -> None:
        self._root = connection  # runs nothing but set-up: other connections are made from it
        self._writer = connection.cursor()
        self._fence = fence
        self._writing = threading.Lock()
        self._spare: SimpleQueue[duckdb.DuckDBPyConnection] = SimpleQueue()
        # What is committed; None while a commit runs and it is not known which side a reader sees.
        self._committed: list[Version] | None = _read_versions(connection)

    @classmethod
    def open(cls, path: str | Path, fence: int, read_only: bool = False) -> DuckStore:
        """Open or make the file; a writer takes over from every writer with a lower fence."""
        connection = _connect(Path(path), read_only)
        try:
            _run(connection, "SET GLOBAL TimeZone = 'UTC'")
            register_functions(connection)
            if not read_only:
                _take_over(connection, fence)
        except BaseException:
            connection.close()
            raise
        return cls(connection, fence)

    def register(self, view: View, fingerprint: str, patience_ms: int) -> Version:
        definition = orjson.dumps(to_json(view), option=orjson.OPT_SORT_KEYS).decode()
        with self._transaction() as connection:
            ((last,),) = _run(connection, "SELECT max(number) FROM versions WHERE view = ?", [view.name])
            number, first = (last or 0) + 1, last is None
            _run(connection, create_speed(view, number))
            _run(
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
        moved = _run(
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
            at = _run(
                connection, "SELECT applied_to, fence FROM versions WHERE view = ? AND number = ?", [view, number]
            )
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
            _run(connection, "UPDATE versions SET serving = false WHERE view = ? AND number <> ?", [view, number])
            older = "DELETE FROM versions WHERE view = ? AND number < ? RETURNING number"
            for (old,) in _run(connection, older, [view, number]):
                _run(connection, f"DROP TABLE {quoted(speed_table(view, old))}")

    def drop(self, view: str) -> None:
        with self._transaction() as connection:
            dropped = "DELETE FROM versions WHERE view = ? AND fence = ? RETURNING number"
            for (number,) in _run(connection, dropped, [view, self._fence]):
                _run(connection, f"DROP TABLE {quoted(speed_table(view, number))}")

    def stall(self, view: str, number: int, error: str | None) -> None:
        with self._transaction() as connection:
            self._hit(connection, "UPDATE versions SET stalled = ?", view, number, error)

    def _hit(self, connection: duckdb.DuckDBPyConnection, update: str, view: str, number: int, *values: Any) -> None:
        if _run(connection, f"{update} {OF_VERSION}", [*values, view, number, self._fence]) != [(1,)]:
            raise FencedError(
                f"view '{view}' version {number} was not changed",
                found="no such version with this fence in the store",
                expected=f"fence {self._fence}",
                fix="nothing was changed; another process has taken over, so stop this one",
            )

    @contextmanager
    def snapshot(self) -> Iterator[DuckSnapshot]:
        connection = self._idle()
        connection.begin()
        try:
            known = self._committed
            _run(connection, "SELECT 1 FROM versions LIMIT 0")  # the transaction's sight begins here
            yield DuckSnapshot(connection, known if self._committed is known else None)
        finally:
            connection.rollback()
            self._spare.put(connection)

    def _idle(self) -> duckdb.DuckDBPyConnection:
        try:
            return self._spare.get_nowait()
        except Empty:
            return self._root.cursor()

    @contextmanager
    def _transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._writing:
            before = self._committed
            self._writer.begin()
            try:
                yield self._writer
                after = _read_versions(self._writer)
            except BaseException:
                self._writer.rollback()
                raise
            self._committed = None
            try:
                self._writer.commit()
            except BaseException:
                self._committed = before
                raise
            self._committed = after

    def close(self) -> None:
        with suppress(Empty):
            while True:
                self._spare.get_nowait().close()
        self._writer.close()
        self._root.close()


def _tables(version: Version) -> list[str]:
    """Where a version's rows lie: in several tables, which never share a commit. So far one."""
    return [speed_table(version.view.name, version.number)]


def _read_versions(connection: duckdb.DuckDBPyConnection) -> list[Version]:
    return [Version(_view(row[0]), *row[1:]) for row in _run(connection, READ_VERSIONS)]


def _run(connection: duckdb.DuckDBPyConnection, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    """Run and fetch to the end: an unfinished result would block its connection."""
    rows: list[tuple[Any, ...]] = connection.execute(query, parameters).fetchall()
    return rows


def _merge(connection: duckdb.DuckDBPyConnection, view: str, number: int, files: Sequence[str]) -> None:
    found = "SELECT definition FROM versions WHERE view = ? AND number = ?"
    ((definition,),) = _run(connection, found, [view, number])
    stage, *writes = merge_files(_view(definition), number)
    _run(connection, stage, {"files": [str(file) for file in files]})
    for write in writes:
        _run(connection, write)


def _connect(path: Path, read_only: bool) -> duckdb.DuckDBPyConnection:
    if read_only and not path.exists():
        raise WorkspaceError(
            f"store {path} does not exist", expected="a file that `headrace up` made", fix="start `headrace up` once"
        )
    try:
        return duckdb.connect(str(path), read_only=read_only, config=SETTINGS)
    except duckdb.IOException as error:
        if "lock" in str(error).lower():
            raise WorkspaceError(
                f"store {path} is held by another process",
                found=str(error).splitlines()[0],
                fix="ask the server that runs in this workspace, or stop it first",
            ) from error
        raise _corrupt(path, error) from error
    except duckdb.Error as error:
        raise _corrupt(path, error) from error


def _corrupt(path: Path, error: duckdb.Error) -> CorruptionError:
    return CorruptionError(
        f"store {path} cannot be read",
        found=str(error).splitlines()[0],
        fix=f"delete it with {path.name}.wal: it holds nothing that is not rebuilt from the lake",
    )


def _take_over(connection: duckdb.DuckDBPyConnection, fence: int) -> None:
    _run(connection, VERSIONS)
    ((highest,),) = _run(connection, "SELECT max(fence) FROM versions")
    if highest is not None and highest > fence:
        raise FencedError(
            "the store was taken over by a later process",
            found=f"fence {highest}",
            expected=f"at most {fence}, the fence of this process",
            fix="nothing was changed; stop this process",
        )
    _run(connection, "UPDATE versions SET fence = ?", [fence])
