"""Audits of views over tables: now and then each is computed again from the rows of its table and compared.

Such a view is maintained by adding and subtracting the rows that a commit changes, by one path. Here all of it is
computed at once, by another one.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.store.store_contract import Audit, Store
from headrace.store.version import Version, VersionId

SHARE = 20  # an audit reads all rows of the table: it takes at most one part in so many of the time


@dataclass(frozen=True)
class _Last:
    """The last audit of a version, or the making of it."""

    at_s: float
    took_s: float
    commits: int  # that it had then


class TableAudits:
    """Compares the views over tables of one store."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._last: dict[VersionId, _Last] = {}

    def is_due(self, version: Version, every_s: float) -> bool:
        """Return whether a version has changed since its last audit, and that was long enough ago."""
        if version.alarm or version.stalled:
            return False  # drift is kept for somebody to look at
        last = self._last_of(version)
        waited = self._now() - last.at_s >= max(every_s, SHARE * last.took_s)
        return waited and last.commits != version.total("applied_to")

    def _last_of(self, version: Version) -> _Last:
        if version.id not in self._last:
            with self._store.snapshot() as snapshot:
                audits = [audit for audit in snapshot.audits(version.view.name) if audit.number == version.number]
            last = _Last(version.changed_at_us / 1e6, 0.0, -1)
            for audit in audits[:1]:
                last = _Last(audit.at_us / 1e6, audit.took_ms / 1e3, audit.to_commit)
            self._last[version.id] = last
        return self._last[version.id]

    def run(self, version: Version, folder: Path, stopping: Callable[[], bool]) -> Audit:
        """Compare a version, and record the result. The folder is there afterwards only if there is drift."""
        began, at_s = time.monotonic(), self._now()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        # Also where it fails: what takes too much memory is not tried all the time.
        last = self._last_of(version)
        self._last[version.id] = _Last(at_s, last.took_s, last.commits)
        try:
            version, comparison = self._store.compare_with_table(version, folder, stopping=stopping)
            took_s = time.monotonic() - began
            audit = Audit(
                *version.id,
                version.view.streams[0],
                0,
                version.total("applied_to"),
                int(at_s * 1e6),
                int(took_s * 1000),
                comparison.events,
                comparison.rows,
                comparison.drift,
            )
            self._store.note_audit(audit)
            self._last[version.id] = _Last(at_s, took_s, audit.to_commit)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if audit.agreed:
            shutil.rmtree(folder, ignore_errors=True)
        return audit
