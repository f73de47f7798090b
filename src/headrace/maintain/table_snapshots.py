"""Snapshots of tables for the fused lane: made by Spark in the background, and again as the logs grow."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from headrace.define.relation import Join
from headrace.engine.duckdb_relations import side_name
from headrace.errors import HeadraceError
from headrace.maintain.spark_joins import TableLogs
from headrace.maintain.table_versions import TableAt, table_at
from headrace.spark.failures import one_line
from headrace.spark.session import Session
from headrace.spark.written import write_files

POOL = "batch"
MOST_FILES = 64  # of a log since the snapshot: beyond it, another one is made
MOST_ROWS = 200_000
MOST_HISTORY = 2_000_000  # changes of a table that is joined FOR SYSTEM_TIME AS OF: workers keep all of them
RETRY = 3  # failures after which a table is left to Spark

log = structlog.get_logger("headrace.tables")


@dataclass(frozen=True)
class _Snapshot:
    files: tuple[str, ...]
    version: int
    folder: Path


class TableSnapshots:
    """The snapshots of the tables that the fused lane joins, by what the joins read of them."""

    def __init__(self, session: Session, logs: TableLogs, folder: Path) -> None:
        self._session = session
        self._logs = logs
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        self._snapshots: dict[str, _Snapshot] = {}
        self._old: dict[str, Path] = {}  # the snapshot before the last one: workers may still read it
        self._failures: dict[str, list[str]] = {}
        self._working: str | None = None
        self._lock = threading.Lock()

    def refuse(self, joins: Iterable[Join]) -> str | None:
        """Why the tables of these joins are not at hand; None if they are."""
        for join in joins:
            name = side_name(join)
            failures = self._failures.get(name, [])
            if len(failures) >= RETRY:
                return f"the rows of table '{join.table}' could not be prepared: {failures[-1]}"
            if join.as_of is not None and (changes := self._changes_of(join)) > MOST_HISTORY:
                return (
                    f"table '{join.table}' has had {changes:,} changes: beyond {MOST_HISTORY:,} Spark keeps the history"
                )
            if name not in self._snapshots:
                self._prepare(join)
                return f"the rows of table '{join.table}' are being prepared"
        return None

    def _changes_of(self, join: Join) -> int:
        lake = self._logs.find(join.log.stream)
        return sum(file.rows for file in lake[1].files(0, lake[1].state.next_commit)) if lake else 0

    def at(self, join: Join, pin: int) -> TableAt | None:
        """The table at a pin, for workers; None if its snapshot is later or its log is gone."""
        snapshot, lake = self._snapshots.get(side_name(join)), self._logs.find(join.log.stream)
        if snapshot is None or lake is None or pin < snapshot.version:
            return None
        stream, table = lake
        files = table.files(snapshot.version, pin)
        if len(files) > MOST_FILES or sum(file.rows for file in files) > MOST_ROWS:
            self._prepare(join)
        paths = [table.storage.locate(file.path) for file in files]
        return table_at(join, pin, stream, table.storage.location, paths, snapshot.files, snapshot.version)

    def _prepare(self, join: Join) -> None:
        """Make a snapshot in the background, one at a time."""
        with self._lock:
            if self._working is not None:
                return
            self._working = side_name(join)
        threading.Thread(target=self._run, args=(join,), name=f"table {join.table}", daemon=True).start()

    def _run(self, join: Join) -> None:
        name = side_name(join)
        try:
            self.make(join)
            self._failures.pop(name, None)
        except Exception as error:  # of Spark, or of a log that cannot be read: Spark computes the view then
            reason = str(error) if isinstance(error, HeadraceError) else one_line(error)
            self._failures.setdefault(name, []).append(reason)
            log.warning("a table could not be prepared", table=join.table, reason=reason)
        finally:
            self._working = None

    def make(self, join: Join) -> None:
        """Make a snapshot of the newest version of a table."""
        lake = self._logs.find(join.log.stream)
        if lake is None:
            return
        version, name = lake[1].state.next_commit, side_name(join)
        folder = self._folder / f"{name}-{version}"
        before = self._snapshots.get(name)
        if before is not None and before.version == version:
            return
        spark = self._session()
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        shutil.rmtree(folder, ignore_errors=True)
        with self._logs.opened(spark, join.log.stream) as joins:
            # The one before it has all that its commits made: only the log since then is read.
            known = (before.files, before.version) if before and before.files else None
            files = write_files(joins.latest(join, version, known), folder)
        self._snapshots[name] = _Snapshot(tuple(files), version, folder)
        log.info("table prepared", table=join.table, version=version)
        if (old := self._old.pop(name, None)) is not None:
            shutil.rmtree(old, ignore_errors=True)
        if before is not None:
            self._old[name] = before.folder
