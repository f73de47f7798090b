"""Parquet files of the lake: written with what they contain, and read some megabytes at a time."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from headrace.lake.health import footer_crc
from headrace.lake.storage import Storage
from headrace.lake.table_schema import ARRIVED, COMMIT, COMMITTED_AT, DEAD, NEWEST, POSITION, TABLES, VALUE
from headrace.lazy import pa, pc, pq
from headrace.parse.record_columns import utc_us

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


REPEATS = 4  # of a value, on average, from which a dictionary of the values saves space
LOG_STATISTICS = (COMMIT, POSITION)  # columns whose smallest and largest value are in the log


@dataclass(frozen=True)
class NewFile:
    """A file that was written and the next commit, or a rewrite, may add."""

    path: str  # below the table's folder
    size: int
    rows: int
    dead: bool
    stats: str


class LakeFileWriter:
    """Creates the file with its first rows; it is durable when closed, and in the table once a commit adds it."""

    def __init__(self, storage: Storage, commit: int, *, dead: bool, statistics: Sequence[str] = ()) -> None:
        """`commit` is the first whose rows it holds; `statistics` are columns whose bounds each row group has."""
        self._storage = storage
        self._statistics = list(statistics)
        self._dead = dead
        self._name = f"{DEAD}={'true' if dead else 'false'}/{commit:012d}-{uuid.uuid4().hex}.parquet"
        self._draft: Path | None = None
        self._finished = False
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}

    def write(self, rows: pa.Table) -> None:
        """Add rows, all of one schema."""
        if not len(rows):
            return
        if self._writer is None:
            self._draft = self._storage.draft(self._name)
            repeated, encodings = _encodings(rows)
            self._writer = pq.ParquetWriter(
                self._draft,
                rows.schema,
                compression="zstd",
                compression_level=1,
                write_statistics=self._statistics,
                write_page_checksum=True,  # readers check it: a flipped bit is an error, not another value
                use_dictionary=repeated,
                column_encoding=encodings,
            )
        self._writer.write_table(rows)
        self._rows += len(rows)
        for name in LOG_STATISTICS:
            bounds = pc.min_max(rows.column(name)).as_py()
            self._low[name] = min(bounds["min"], self._low.get(name, bounds["min"]))
            self._high[name] = max(bounds["max"], self._high.get(name, bounds["max"]))

    def abandon(self) -> None:
        """Delete what was written: a file that will not be committed only takes space."""
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):  # a full disk may be why it is abandoned
                self._writer.close()
            self._writer = None
        with suppress(OSError):
            if self._finished:
                self._storage.remove(self._name)
            elif self._draft is not None:  # it may exist even if its writer could not be opened
                self._draft.unlink()

    def close(self) -> NewFile | None:
        """Make it durable; None if it has no rows, and then there is no file."""
        if self._writer is None or self._draft is None:
            return None
        self._writer.close()
        size = self._draft.stat().st_size
        with self._draft.open("rb") as file:
            crc = footer_crc(file)
        # Parquet has checksums of pages, not of its footer: that one is in the name.
        self._name = f"{self._name.removesuffix('.parquet')}-{crc:08x}.parquet"
        self._storage.finish(self._draft, self._name)
        self._finished = True
        stats = {
            "numRecords": self._rows,
            "minValues": self._low,
            "maxValues": self._high,
            "nullCount": dict.fromkeys(LOG_STATISTICS, 0),
        }
        return NewFile(self._name, size, self._rows, self._dead, orjson.dumps(stats).decode())


def _encodings(rows: pa.Table) -> tuple[list[str], dict[str, str]]:
    """The columns of repeated values, for dictionaries, and the encodings of those that ascend, by differences.

    This takes half the time of dictionaries for all columns.
    """
    constant = (COMMIT, COMMITTED_AT, ARRIVED, NEWEST)
    delta = [f.name for f in rows.schema if f.type in (pa.int64(), utc_us()) and f.name not in constant]
    others = [f for f in rows.schema if f.name != VALUE]
    plain = [VALUE, *(f.name for f in others if _is_plain(f.type) or _is_distinct(rows.column(f.name)))]
    repeated = [name for name in rows.schema.names if name not in (*delta, *plain)]
    repeated += [f"{TABLES}.key_value.{part}" for part in ("key", "value") if TABLES in rows.schema.names]
    return repeated, dict.fromkeys(delta, "DELTA_BINARY_PACKED")


def _is_plain(type_: pa.DataType) -> bool:
    return pa.types.is_floating(type_) or pa.types.is_decimal(type_)


def _is_distinct(column: pa.ChunkedArray) -> bool:
    """Return whether most values of a text column are different: a dictionary of them takes time and saves nothing."""
    if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)) or column.null_count == len(column):
        return False
    return int(pc.count_distinct(column).as_py()) * REPEATS > len(column) - column.null_count
