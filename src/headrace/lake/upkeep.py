"""Upkeep of one stream's lake and transport: compaction, a short log, and deletion of unused files.

A kill at any point is safe, and so are concurrent readers and the append; no commit and no event changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from headrace.faults import fault_point
from headrace.lake.compact import Compaction
from headrace.lake.table import DATA, LakeTable
from headrace.transport.base import Transport

GRACE_S = 3600.0  # a file that left the table stays this long, for readers in other processes
ATTEMPT_S = 60.0  # a file of a failed attempt stays this long: a task of it may still run


class Upkeep:
    """What one background thread does periodically."""

    def __init__(
        self,
        table: LakeTable,
        transport: Transport,
        *,
        grace_s: float = GRACE_S,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._table = table
        self._transport = transport
        self._compaction = Compaction(table)
        self._grace_s = grace_s
        self._now = now
        self.last_us: int | None = None  # when the last round ended

    def run(self, *, busy: Callable[[], bool] = lambda: False, stopping: Callable[[], bool] = lambda: False) -> None:
        """One round. While `busy`, events come first: only short tasks run."""
        self._table.log.tidy()
        while not busy() and not stopping() and self._compaction.run_once(stopping=lambda: busy() or stopping()):
            self._table.log.tidy()
        self.delete_unused()
        self._transport.reclaim(self._table.state.position)
        self.last_us = int(self._now() * 1e6)

    def delete_unused(self) -> int:
        """Delete files that are not in the table, once no reader can need them; returns how many.

        The modification time of a file is the earliest time at which it left the table: for a file that no commit
        added, when it was written; for one that was compacted, when that happened.
        """
        with self._table.turn:
            # No micro-batch and no commit of a replay is running in this process, and other processes cannot commit.
            # A file of a future commit was never in the table, so it has no readers.
            next_commit = self._table.state.next_commit
            files, now = self._stored_files(), self._now()
            old = [path for path, at in files.items() if at < now - self._grace_s]
            failed = [path for path, at in files.items() if _first_commit(path) >= next_commit and at < now - ATTEMPT_S]
            # After listing: it raises if another process took over, which may have written some of these files.
            doomed = self._table.doom({*old, *failed})
        for path in doomed:
            fault_point("upkeep.before_delete")
            self._table.storage.remove(path)
            self._table.forget(path)
        return len(doomed)

    def _stored_files(self) -> dict[str, float]:
        """The Parquet files that are stored, with the time of their last modification."""
        files = [file for prefix in DATA for file in self._table.storage.list(prefix)]
        return {file.name: file.modified_s for file in files if file.name.endswith(".parquet")}


def _first_commit(path: str) -> int:
    """The commit that a file was written for, or the first of those compacted into it; 0 for a file of another name."""
    head = Path(path).name.split("-")[0]
    return int(head) if head.isdigit() else 0
