"""The times of commits, the newest event time before each, and how it advances while no events arrive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.lake.delta_table import LakeState, LakeTable
from headrace.lake.table_files import LakeFile
from headrace.lake.table_schema import COMMIT, COMMITTED_AT, NEWEST, TABLES, Pins
from headrace.lazy import np, pa, pc, pq

COLUMNS = [COMMIT, COMMITTED_AT, NEWEST]


@dataclass(frozen=True)
class CommitFacts:
    """The facts about a commit that every row of it contains."""

    commit: int
    committed_at_us: int
    newest_us: int | None  # the time of the stream before it


class CommitReader:
    """Commits by number, from files that stay on disk meanwhile. Nothing is known of a commit without rows."""

    def __init__(self, table: LakeTable, files: list[LakeFile]) -> None:
        self._table = table
        self._files = files
        self._tables: dict[str, pa.Table] = {}
        self.end = table.state.next_commit

    def at_or_after(self, commit: int) -> CommitFacts | None:
        """The first commit from this one on that has rows; None if there is none."""
        near = [(max(file.first_commit, commit), file) for file in self._files if file.last_commit >= commit]
        first = None
        for lower_bound, file in sorted(near, key=lambda pair: (pair[0], pair[1].path)):
            if first is not None and first.commit <= lower_bound:
                break
            facts = self._first(file, commit)
            if facts is not None and (first is None or facts.commit < first.commit):
                first = facts
        return first

    def count_until(self, time_us: int) -> int:
        """The number of commits that were made up to this time."""
        low, high = 0, self.end
        while low < high:
            middle = (low + high) // 2
            facts = self.at_or_after(middle)
            if facts is not None and facts.committed_at_us > time_us:
                high = middle
            else:
                low = middle + 1
        return low

    def _first(self, file: LakeFile, commit: int) -> CommitFacts | None:
        if file.path not in self._tables:
            self._tables[file.path] = pq.read_table(
                self._table.storage.locate(file.path), columns=COLUMNS, partitioning=None
            )
        rows = self._tables[file.path]
        rest = rows.filter(pc.greater_equal(rows.column(COMMIT), commit))
        if not rest.num_rows:
            return None
        least = pc.min(rest.column(COMMIT)).as_py()
        row = rest.filter(pc.equal(rest.column(COMMIT), least)).slice(0, 1)
        committed_at, newest = (row.column(name).cast(pa.int64())[0].as_py() for name in (COMMITTED_AT, NEWEST))
        return CommitFacts(least, committed_at, newest)


@contextmanager
def reading_commits(table: LakeTable) -> Iterator[CommitReader]:
    """A reader of all commits that the table has now."""
    end = table.state.next_commit
    with table.reading(0, end) as live, table.reading(0, end, dead=True) as dead:
        yield CommitReader(table, [*live, *dead])


def times_before(table: LakeTable, commit: int) -> tuple[int | None, int | None]:
    """The newest event time of commits [0, commit), in us, and the time that the stream reached while it was idle.

    Of an old commit only the later of both is known, and given as the first.
    """
    state = table.state_at(commit)
    if state is None:
        with reading_commits(table) as commits:
            facts = commits.at_or_after(commit)
        if facts:  # of the next commit with rows: those between are of a stream that was idle
            return facts.newest_us, None
        state = table.state
    return state.newest_us, state.idle_us


def read_pins(paths: Iterable[str], commits: tuple[int, int]) -> dict[int, Pins | None]:
    """The pins of those of these commits that have rows in these files; None where they recorded none."""
    pins: dict[int, Pins | None] = {}
    for path in paths:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            rows = file.read([COMMIT, TABLES])
        numbers, first = np.unique(rows.column(COMMIT).to_numpy(), return_index=True)
        recorded = rows.column(TABLES).take(first).to_pylist() if TABLES in rows.column_names else [None] * len(numbers)
        pairs = zip(numbers.tolist(), recorded, strict=True)
        pins |= {commit: each and dict(each) for commit, each in pairs if commits[0] <= commit < commits[1]}
    return pins


SHARE = 10  # of the time that a stream has been idle: so much of it may not be recorded yet


class IdleClock:
    """Decides when an idle stream's time is recorded, and what it is.

    It continues from where it was when the last commit was made, as fast as the clock of this process: a stream whose
    events are always an hour late is not taken to be on time when it is idle, and the time that the server was down
    does not count. Each entry of the log costs some milliseconds, so they become rarer: after an idle hour, at most six
    minutes are not recorded.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._commit: int | None = None  # the next one, as long as the stream is idle
        self._since_s = 0.0
        self._from_us = 0
        self._recorded_s = 0.0  # of the time since then

    def restart(self) -> None:
        """Count from now on."""
        self._commit = None

    def advance(self, at: LakeState, timeout_ms: int) -> int | None:
        """The time to record now, in us; None: nothing. It is taken to be recorded as the next commit."""
        if at.time_us is None:
            return None
        if at.next_commit != self._commit:
            self._commit, self._since_s, self._from_us, self._recorded_s = at.next_commit, self._now_s(), at.time_us, 0
            return None
        idle_s = self._now_s() - self._since_s
        if idle_s - self._recorded_s < max(timeout_ms / 1000, idle_s / SHARE):
            return None
        self._commit, self._recorded_s = at.next_commit + 1, idle_s
        return self._from_us + int(idle_s * 1e6)
