"""Rows of a Parquet file, some megabytes at a time, however large their events are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.arrow import pa, pc, pq
from headrace.lake.schema import POSITION

MOST_ROWS = 8192
MOST_BYTES = 16 << 20  # approximate: a row group has only the average size of its rows


def batches(path: Path, columns: Sequence[str] | None = None, most_bytes: int = MOST_BYTES) -> Iterator[pa.Table]:
    """All rows, in their order."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            yield from of_group(file, group, columns, most_bytes)


def rows_at(path: Path, positions: Sequence[int], columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows at these positions. Row groups without any are skipped after reading their positions."""
    targets = pa.array(positions, pa.int64())
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for group in range(file.num_row_groups):
            matches = pc.is_in(file.read_row_group(group, [POSITION]).column(POSITION), targets)
            if pc.any(matches).as_py():
                for rows in of_group(file, group, columns):
                    yield rows.filter(pc.is_in(rows.column(POSITION), targets))


def of_group(
    file: pq.ParquetFile, group: int, columns: Sequence[str] | None, most_bytes: int = MOST_BYTES
) -> Iterator[pa.Table]:
    """All rows of a row group, in their order."""
    metadata = file.metadata.row_group(group)
    most = max(1, min(MOST_ROWS, most_bytes * metadata.num_rows // max(1, metadata.total_byte_size)))
    names = list(columns) if columns is not None else None
    for batch in file.iter_batches(most, row_groups=[group], columns=names, use_threads=False):
        yield pa.Table.from_batches([batch])
