"""Upkeep of one stream's lake and transport: compaction, a short log, and deletion of unused files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path

from headrace.errors import CorruptionError
from headrace.faults import fault_point
from headrace.lake.delta_table import DATA, LakeTable
from headrace.lake.parquet_file import LakeFileWriter, NewFile, batches
from headrace.lake.table_files import TARGET_BYTES, LakeFile
from headrace.lake.table_schema import ARRIVED, COMMIT, POSITION
from headrace.lazy import np, pa, pq
from headrace.parse.record_columns import utc_us
from headrace.transport.transport_contract import Transport

GATHER = 8  # neighbours of one level that make a file of the next
MOST_FILES = 1000  # in one group
GROUP_ROWS = 128 << 10  # rows of a row group: what is in memory at a time, and what a reader can skip
GROUP_BYTES = 32 << 20
PIECES = 256  # small tables gathered before they are joined


class Compaction:
    """Compacts one stream's table, one group of files at a time. Only one thread may do so."""

    def __init__(
        self,
        table: LakeTable,
        *,
        target_bytes: int = TARGET_BYTES,
        gather: int = GATHER,
        group_rows: int = GROUP_ROWS,
    ) -> None:
        self._table = table
        self._target_bytes = target_bytes
        self._gather = gather
        self._group_rows = group_rows

    def run_once(self, *, stopping: Callable[[], bool] = lambda: False) -> bool:
        """Compact one group of files; returns whether there was one. May stop early, with nothing changed."""
        for dead in (False, True):
            with self._table.reading(0, self._table.state.next_commit, dead=dead) as files:
                for group in self._groups(files):
                    if (new := self._write(group, stopping)) is not None:
                        self._commit(group, new)
                        return True
        return False

    def _groups(self, files: Sequence[LakeFile]) -> Iterator[list[LakeFile]]:
        """Neighbours that become one file, those of the lowest level first: these take the least time."""
        levels = [None if file.size >= self._target_bytes // 2 else self._level(file) for file in files]
        for level in sorted({each for each in levels if each is not None}):
            fits = [each is not None and each <= level for each in levels]
            for fit, run in groupby(range(len(files)), fits.__getitem__):
                indexes = [index for index in run if levels[index] == level]
                if fit and len(indexes) >= self._gather:
                    yield from self._pieces(files[indexes[0] : indexes[-1] + 1])

    def _pieces(self, files: Sequence[LakeFile]) -> Iterator[list[LakeFile]]:
        """Parts of a run, of one Parquet schema and about the target size. Columns are never changed here."""
        for _, run in groupby(files, lambda file: pq.read_schema(self._path(file))):
            piece: list[LakeFile] = []
            for file in run:
                if len(piece) >= MOST_FILES or (piece and sum(f.size for f in piece) + file.size > self._target_bytes):
                    yield from ([piece] if len(piece) > 1 else [])
                    piece = []
                piece.append(file)
            yield from ([piece] if len(piece) > 1 else [])

    def _level(self, file: LakeFile) -> int:
        """The level by rows, since those add up exactly: a file made of `gather` files has a higher level."""
        level, rows = 0, file.rows
        while rows >= self._gather:
            level, rows = level + 1, rows // self._gather
        return level

    def _path(self, file: LakeFile) -> Path:
        return Path(self._table.storage.locate(file.path))

    def _write(self, group: Sequence[LakeFile], stopping: Callable[[], bool]) -> NewFile | None:
        """A file with the rows of the group, by commit; None if it is time to stop."""
        schema = pq.read_schema(self._path(group[0]))
        times = [field.name for field in schema if field.type == utc_us() and not field.name.startswith("_")]
        writer = LakeFileWriter(
            self._table.storage,
            group[0].first_commit,
            dead=group[0].dead,
            statistics=[COMMIT, POSITION, ARRIVED, *times],
        )
        before = _Sums()
        try:
            for rows in _row_groups([self._path(file) for file in group], most_rows=self._group_rows):
                if stopping():
                    writer.abandon()
                    return None
                before.add(rows)
                writer.write(rows)
            new = writer.close()
        except BaseException:
            writer.abandon()
            raise
        if new is None or before != _sums_of(Path(self._table.storage.locate(new.path))):
            raise CorruptionError(
                f"lake '{self._table.folder.name}': a compacted file does not contain the rows of the {len(group)} "
                "files that it was made of",
                fix="nothing was changed; the files are as they were",
            )
        return new

    def _commit(self, group: Sequence[LakeFile], new: NewFile) -> None:
        # From here on the files may leave the table; the time that they must stay on disk for readers starts now.
        for file in group:
            self._table.storage.touch(file.path)
        fault_point("compact.before_commit")
        # Not while a replay commits: it holds the turn, and removes files of dead letters.
        with self._table.turn if new.dead else nullcontext():
            self._table.rewrite(group, [new])
        fault_point("compact.after_commit")


class _Sums:
    """A checksum of a set of rows in any order: their number, and the sums of commit and position."""

    def __init__(self) -> None:
        self._sums = np.zeros(3, dtype=np.uint64)

    def add(self, rows: pa.Table) -> None:
        commits, positions = (rows.column(name).to_numpy().astype(np.uint64) for name in (COMMIT, POSITION))
        self._sums += np.array([len(rows), commits.sum(), positions.sum()], dtype=np.uint64)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sums) and bool((self._sums == other._sums).all())

    __hash__ = None  # type: ignore[assignment]


def _sums_of(path: Path) -> _Sums:
    """The sums of a file, read from disk."""
    sums = _Sums()
    for rows in _row_groups([path], [COMMIT, POSITION]):
        sums.add(rows)
    return sums


def _row_groups(
    paths: Sequence[Path], columns: list[str] | None = None, most_rows: int = GROUP_ROWS
) -> Iterator[pa.Table]:
    """The rows of these files in their order, in tables of the size of a row group."""
    tables: list[pa.Table] = []
    rows = size = 0
    for path in paths:
        for batch in batches(path, columns):
            tables.append(batch)
            rows, size = rows + len(batch), size + batch.nbytes
            if len(tables) >= PIECES:  # many small tables take more memory than their rows
                tables = [pa.concat_tables(tables).combine_chunks()]
            if rows >= most_rows or size >= GROUP_BYTES:
                yield pa.concat_tables(tables)
                tables, rows, size = [], 0, 0
    if tables:
        yield pa.concat_tables(tables)


GRACE_S = 3600.0  # a file that left the table stays this long, for readers in other processes
ATTEMPT_S = 60.0  # a file of a failed attempt stays this long: a task of it may still run


class Upkeep:
    """The periodic work of one background thread."""

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
        """One round. While `busy`, events have priority: only short tasks run."""
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
