"""When commits were made, and the newest event time before each: read from the few files that tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.lake.schema import COMMIT, COMMITTED_AT, NEWEST
from headrace.lake.table import LakeFile, LakeTable

COLUMNS = [COMMIT, COMMITTED_AT, NEWEST]


@dataclass(frozen=True)
class CommitFacts:
    """What every row of a commit tells of it."""

    commit: int
    committed_at_us: int
    newest_us: int | None  # newest event time of the stream before it


class CommitReader:
    """Commits by number, over files that stay on disk meanwhile. A commit without rows tells nothing."""

    def __init__(self, table: LakeTable, files: list[LakeFile]) -> None:
        self._table = table
        self._files = files
        self._read: dict[str, pa.Table] = {}
        self.end = table.state.next_commit

    def at_or_after(self, commit: int) -> CommitFacts | None:
        """The first commit from this one on that has rows; None if there is none."""
        near = [(max(file.first_commit, commit), file) for file in self._files if file.last_commit >= commit]
        found = None
        for first, file in sorted(near, key=lambda pair: (pair[0], pair[1].path)):
            if found is not None and found.commit <= first:
                break
            told = self._first(file, commit)
            if told is not None and (found is None or told.commit < found.commit):
                found = told
        return found

    def made_by(self, time_us: int) -> int:
        """How many commits were made by this time: commits [0, here)."""
        low, high = 0, self.end
        while low < high:
            middle = (low + high) // 2
            told = self.at_or_after(middle)
            if told is not None and told.committed_at_us > time_us:
                high = middle
            else:
                low = middle + 1
        return low

    def _first(self, file: LakeFile, commit: int) -> CommitFacts | None:
        if file.path not in self._read:
            self._read[file.path] = pq.read_table(
                self._table.storage.locate(file.path), columns=COLUMNS, partitioning=None
            )
        rows = self._read[file.path]
        fitting = rows.filter(pc.greater_equal(rows.column(COMMIT), commit))
        if not fitting.num_rows:
            return None
        least = pc.min(fitting.column(COMMIT)).as_py()
        row = fitting.filter(pc.equal(fitting.column(COMMIT), least)).slice(0, 1)
        made, newest = (row.column(name).cast(pa.int64())[0].as_py() for name in (COMMITTED_AT, NEWEST))
        return CommitFacts(least, made, newest)


@contextmanager
def reading_commits(table: LakeTable) -> Iterator[CommitReader]:
    """A reader of all commits that the table has now."""
    end = table.state.next_commit
    with table.reading(0, end) as live, table.reading(0, end, dead=True) as dead:
        yield CommitReader(table, [*live, *dead])


def newest_before(table: LakeTable, commit: int) -> int | None:
    """The newest event time of commits [0, commit), in us; None if they hold no event."""
    state = table.state_at(commit)
    if state is not None:
        return state.newest_us
    with reading_commits(table) as commits:
        told = commits.at_or_after(commit)
    # Commits without rows have changed nothing: what is true before the next one is true here.
    return told.newest_us if told else table.state.newest_us
