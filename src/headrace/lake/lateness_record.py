"""The measured lateness of a stream's events: updated with each commit, kept in a file beside the lake.

Nothing depends on that file. What it lacks, because a process was killed or a replay made the commit, is measured from
the lake's files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from headrace.define.model import Stream
from headrace.disk import replace_file
from headrace.lake.commit_times import reading_commits
from headrace.lake.delta_table import LakeTable
from headrace.lake.lateness_histogram import DAY_US, DAYS, Days, Lateness, LatenessHistogram, join_days, measure
from headrace.lake.table_files import LakeFile
from headrace.lake.table_schema import ARRIVED, COMMIT, COMMITTED_AT, NEWEST
from headrace.lazy import pa, pc, pq

FILE = "_lateness.json"  # in the folder of the table; Delta ignores names that begin with _
FORMAT = 1
MOST_WAITING = 10_000  # commits that were measured while earlier ones were not
MOST_SOON = 1_000_000  # events that a command measures for itself
AT_ONCE = 200  # commits that are read together


class LatenessRecord:
    """The lateness of commits [0, end) of a stream. Safe for several threads."""

    def __init__(self, table: LakeTable, stream: Stream) -> None:
        self._table = table
        self._stream = stream
        self._file = table.folder / FILE
        self._lock = threading.Lock()
        self._end, self._days = _read(self._file, table.state.next_commit)
        self._waiting: dict[int, Days] = {}
        self._saved = self._end

    @property
    def days(self) -> Days:
        """The days that are known so far."""
        return self._days

    def note(self, commit: int, parts: Sequence[Days]) -> None:
        """A commit was made, and measured in these parts."""
        with self._lock:
            if len(self._waiting) < MOST_WAITING:
                self._waiting[commit] = join_days(parts)
            self._take_waiting()

    def _take_waiting(self) -> None:
        while self._end in self._waiting:
            self._days = join_days([self._days, self._waiting.pop(self._end)])
            self._end += 1

    def catch_up(self, stopping: Callable[[], bool] = lambda: False, most: int | None = None) -> None:
        """Measure commits that were not; at most about so many events, the others later."""
        while not stopping():
            with self._lock:
                start, end = self._end, min(self._waiting, default=self._table.state.next_commit)
            if start >= end:
                return
            if end - start > AT_ONCE:  # some may be of days that are not kept
                start = max(start, self._first_needed(end))
            to = min(end, start + AT_ONCE)
            with self._table.reading(start, to) as files:
                if most is not None and sum(file.rows for file in files) > most:
                    return
                parts = [self._measure(file, start, to) for file in files]
            with self._lock:
                if self._end <= start:  # else another thread was quicker
                    self._days, self._end = join_days([self._days, *parts]), to
                self._take_waiting()

    def _first_needed(self, end: int) -> int:
        """The first commit of the last days."""
        with reading_commits(self._table) as commits:
            last = commits.at_or_after(max(0, end - 1))
            if last is None:
                return 0
            return commits.count_until((last.committed_at_us // DAY_US - DAYS + 1) * DAY_US - 1)

    def _measure(self, file: LakeFile, start: int, end: int) -> Days:
        if self._stream.event_time is None:
            return {}
        columns = [COMMIT, COMMITTED_AT, ARRIVED, NEWEST, self._stream.event_time]
        try:
            rows = pq.read_table(self._table.storage.locate(file.path), columns=columns, partitioning=None)
        except (OSError, pa.ArrowInvalid):  # damaged or lost: the readers of its events report it
            return {}
        commits = rows.column(COMMIT)
        return measure(self._stream, rows.filter(pc.and_(pc.greater_equal(commits, start), pc.less(commits, end))))

    def save(self) -> None:
        """Keep it for the next process."""
        with self._lock:
            end, days = self._end, self._days
        if end != self._saved:
            replace_file(self._file, orjson.dumps(_to_json(end, days)), "the lateness of events")
            self._saved = end


def read_lateness(table: LakeTable, stream: Stream) -> Days:
    """The lateness that is known without a server: what the last one saved, and what can be measured soon."""
    record = LatenessRecord(table, stream)
    record.catch_up(most=MOST_SOON)
    return record.days


def _read(file: Path, next_commit: int) -> tuple[int, Days]:
    """Read the saved record; nothing, if it is no record of this lake."""
    try:
        content = orjson.loads(file.read_bytes())
        if content["format"] == FORMAT and content["end"] <= next_commit:
            return content["end"], {int(day): _from_json(value) for day, value in content["days"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # it is measured again
    return 0, {}


def _to_json(end: int, days: Days) -> dict[str, Any]:
    values = {
        str(day): {
            name: {"largest_us": each.largest_us, "counts": sorted(each.counts.items())}
            for name, each in (("lateness", lateness.lateness), ("delay", lateness.delay))
        }
        for day, lateness in days.items()
    }
    return {"format": FORMAT, "end": end, "days": values}


def _from_json(value: Any) -> Lateness:
    histograms = (
        LatenessHistogram(dict(value[name]["counts"]), value[name]["largest_us"]) for name in ("lateness", "delay")
    )
    return Lateness(*histograms)
