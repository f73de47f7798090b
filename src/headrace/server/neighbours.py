"""What a running stream needs from others: the tables and streams that its events are joined to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.define.model import Stream
from headrace.define.table_parts import logs_of
from headrace.errors import CorruptionError
from headrace.lake.delta_table import LakeTable
from headrace.lazy import later
from headrace.server.running_stream import Running
from headrace.transport.position import Position

if TYPE_CHECKING:
    from headrace.maintain import spark_joins, table_snapshots
    from headrace.maintain.table_snapshots import TableSnapshots
    from headrace.spark.session import Session
else:  # loaded by their first use
    spark_joins = later("headrace.maintain.spark_joins")
    table_snapshots = later("headrace.maintain.table_snapshots")

TABLES_FIRST_S = 30.0  # how long a stream waits, at a start, for the tables that its events are joined to


class Neighbours:
    """The streams that run now, as each of them sees the others."""

    def __init__(self, running: Callable[[], Running]) -> None:
        self._running = running
        self._snapshots: TableSnapshots | None = None

    def end_of(self, stream: str) -> int:
        """The next commit of a stream; 0 if that is not known."""
        pipeline = self._running().pipelines.get(stream)
        return pipeline.lake.next_commit if pipeline and pipeline.lake else 0

    def pins(self) -> dict[str, int]:
        """The present versions of all tables, without those whose files are damaged."""
        running = self._running()
        logs = logs_of(running.catalog.tables.values())
        lakes = {name: running.pipelines[name].lake for name in logs if name in running.pipelines}
        return {name: lake.next_commit for name, lake in lakes.items() if lake is not None}

    def find_lake(self, stream: str) -> tuple[Stream, LakeTable] | None:
        """The definition and the lake of a stream; None if it is not there. Raises CorruptionError if damaged."""
        pipeline = self._running().pipelines.get(stream)
        return (pipeline.stream, pipeline.table) if pipeline else None

    def wait_for_tables(self, stream: str, stopping: threading.Event) -> None:
        """Before a stream begins: rows that were sent to a table before the start are in what its events join.

        Each log would otherwise take in at its own pace what was sent while no server ran.
        """
        running = self._running()
        views = [view for view in running.catalog.views.values() if view.relation and stream in view.streams]
        joined = {log for view in views if view.relation for log in view.relation.logs}
        declared = [table.name for table in running.catalog.tables.values() if table.relation is None]
        ends: dict[str, Position] = {}
        for name in joined.intersection(declared):
            with suppress(CorruptionError, KeyError):
                ends[name] = running.pipelines[name].ingest.transport.end
        deadline = time.monotonic() + TABLES_FIRST_S
        while not stopping.is_set() and time.monotonic() < deadline:
            lakes = [(running.pipelines[name].lake, end) for name, end in ends.items()]
            if all(lake is None or lake.position.covers(end) for lake, end in lakes):
                return
            stopping.wait(0.05)

    def table_snapshots(self, session: Session, scratch: Path) -> TableSnapshots:
        """The snapshots of tables for the workers: one of each table for all streams that are joined to it."""
        if self._snapshots is None:
            logs = spark_joins.TableLogs(self.find_lake)
            self._snapshots = table_snapshots.TableSnapshots(session, logs, scratch / "tables")
        return self._snapshots
