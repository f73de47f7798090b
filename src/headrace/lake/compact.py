"""Compaction: many small files of neighbouring commits become a few large ones with the same rows.

Files have levels by their rows. Only where enough neighbours of one level have gathered are they made one of the next,
so a row is written again a few times in its life, however long the log grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import CorruptionError
from headrace.faults import fault_point
from headrace.lake.batches import batches
from headrace.lake.file import LakeFileWriter, NewFile
from headrace.lake.schema import ARRIVED, COMMIT, POSITION
from headrace.lake.table import LakeFile, LakeTable
from headrace.parse.schema import UTC_US

TARGET_BYTES = 128 << 20  # of Parquet in one file
GATHER = 8  # neighbours of one level that make a file of the next
MOST_FILES = 1000  # in one group
GROUP_ROWS = 128 << 10  # rows of a row group: what is in memory at a time, and what a reader can leave out
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
        """Make one group of files one, and tell whether there was one to make. May stop half-way, with nothing done."""
        for dead in (False, True):
            with self._table.reading(0, self._table.state.next_commit, dead=dead) as files:
                for group in self._groups(files):
                    if (new := self._write(group, stopping)) is not None:
                        self._commit(group, new)
                        return True
        return False

    def _groups(self, files: Sequence[LakeFile]) -> Iterator[list[LakeFile]]:
        """Neighbours to be made one file, those of the lowest level first: they are the quickest to do away with."""
        levels = [None if file.size >= self._target_bytes // 2 else self._level(file) for file in files]
        for level in sorted({found for found in levels if found is not None}):
            fits = [found is not None and found <= level for found in levels]
            for fit, run in groupby(range(len(files)), fits.__getitem__):
                at = [index for index in run if levels[index] == level]
                if fit and len(at) >= self._gather:
                    yield from self._pieces(files[at[0] : at[-1] + 1])

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
        """By rows, since those add up exactly: what is made of `gather` files is of a higher level than they were."""
        level, rows = 0, file.rows
        while rows >= self._gather:
            level, rows = level + 1, rows // self._gather
        return level

    def _path(self, file: LakeFile) -> Path:
        return Path(self._table.storage.locate(file.path))

    def _write(self, group: Sequence[LakeFile], stopping: Callable[[], bool]) -> NewFile | None:
        """A file with the rows of the group, by commit; None if it is time to stop."""
        schema = pq.read_schema(self._path(group[0]))
        times = [field.name for field in schema if field.type == UTC_US and not field.name.startswith("_")]
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
                f"lake '{self._table.folder.name}': a compacted file does not hold the rows of the {len(group)} files "
                "that it was made of",
                fix="nothing was changed; the files are as they were",
            )
        return new

    def _commit(self, group: Sequence[LakeFile], new: NewFile) -> None:
        # From here on the files may be gone from the table; how long they must stay for readers counts from now.
        for file in group:
            self._table.storage.touch(file.path)
        fault_point("compact.before_commit")
        # Who holds the turn and reads dead letters to replay them finds the same files when it commits.
        with self._table.turn if new.dead else nullcontext():
            self._table.rewrite(group, [new])
        fault_point("compact.after_commit")


class _Sums:
    """What tells whether two sets of rows are the same, in any order: their number, and sums of commit and position."""

    def __init__(self) -> None:
        self._sums = np.zeros(3, dtype=np.uint64)

    def add(self, rows: pa.Table) -> None:
        commits, positions = (rows.column(name).to_numpy().astype(np.uint64) for name in (COMMIT, POSITION))
        self._sums += np.array([len(rows), commits.sum(), positions.sum()], dtype=np.uint64)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sums) and bool((self._sums == other._sums).all())

    __hash__ = None  # type: ignore[assignment]


def _sums_of(path: Path) -> _Sums:
    """Read back from the disk."""
    sums = _Sums()
    for rows in _row_groups([path], [COMMIT, POSITION]):
        sums.add(rows)
    return sums


def _row_groups(
    paths: Sequence[Path], columns: list[str] | None = None, most_rows: int = GROUP_ROWS
) -> Iterator[pa.Table]:
    """The rows of these files in their order, in tables of the size of a row group."""
    gathered: list[pa.Table] = []
    rows = size = 0
    for path in paths:
        for batch in batches(path, columns):
            gathered.append(batch)
            rows, size = rows + len(batch), size + batch.nbytes
            if len(gathered) >= PIECES:  # many small ones hold more memory than their rows
                gathered = [pa.concat_tables(gathered).combine_chunks()]
            if rows >= most_rows or size >= GROUP_BYTES:
                yield pa.concat_tables(gathered)
                gathered, rows, size = [], 0, 0
    if gathered:
        yield pa.concat_tables(gathered)
