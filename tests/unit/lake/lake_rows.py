"""What a lake holds, read from its files; and a lake of small commits."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bench.ours.lake import add_commit

from headrace.define.catalog import parse
from headrace.define.model import Stream
from headrace.lake.delta_table import LakeTable
from headrace.lake.table_files import LakeFile

(STREAM,) = parse("CREATE STREAM s (id BIGINT, at TIMESTAMP)").streams.values()


def small_lake(folder: Path, commits: int, *, rows: int = 5, dead: int = 0, stream: Stream = STREAM) -> LakeTable:
    """A lake whose commit k holds positions [k * (rows + dead), ...), the dead letters last."""
    table = LakeTable(folder, stream, fence=1)
    for _ in range(commits):
        add_commit(table, stream, rows, dead=dead)
    return table


def read(table: LakeTable, files: list[LakeFile], commits: tuple[int, int]) -> list[tuple[int, int]]:
    """(commit, position) of the rows of these commits, in the order of the files."""
    tables = [pq.read_table(table.folder / file.path, partitioning=None) for file in files]
    if not tables:
        return []
    rows = pa.concat_tables(tables)
    in_range = pc.and_(pc.greater_equal(rows["_commit"], commits[0]), pc.less(rows["_commit"], commits[1]))
    rows = rows.filter(in_range)
    return list(zip(rows["_commit"].to_pylist(), rows["_position"].to_pylist(), strict=True))


def rows_of(table: LakeTable, commits: tuple[int, int] | None = None, *, dead: bool = False) -> list[tuple[int, int]]:
    span = commits or (0, table.state.next_commit)
    return read(table, table.files(*span, dead=dead), span)


def expected(commits: tuple[int, int], *, rows: int = 5, dead: int = 0, of_dead: bool = False) -> list[tuple[int, int]]:
    """What `small_lake` put into these commits."""
    first, last = (rows, rows + dead) if of_dead else (0, rows)
    return [(commit, commit * (rows + dead) + i) for commit in range(*commits) for i in range(first, last)]
