"""The Parquet files that the tasks of a job write: each task reports its own with size and rows, and they are checked.

A folder is never listed: if an executor does not see the driver's folder, or another file system answers under the same
path, the listing is short or empty and rows would be lost without an error.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.errors import LostFileError

GROUP_ROWS, GROUP_BYTES = 120_000, 32 << 20  # of a row group: DuckDB reads some 120,000 rows at a time
_REPORT = "path STRING, size BIGINT, rows BIGINT"


class Written(NamedTuple):
    """A file as the task that wrote it reports it."""

    path: str
    size: int
    rows: int


def write_files(rows: DataFrame, folder: Path) -> list[str]:
    """Write rows to Parquet files below a folder, and return the files: one for each task that had rows, at least one.

    Raises LostFileError if this process does not see exactly the files that the tasks report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # PySpark looks up columns by name here, and reads a dot in one as a field of a struct.
    numbered = rows.toDF(*(f"_{at}" for at in range(len(rows.columns))))
    reports = numbered.mapInArrow(_writer(str(folder), rows.columns), _REPORT).collect()
    files = [Written(*report) for report in reports]
    check_written(files)
    if files:
        return sorted(file.path for file in files)
    empty = folder / "empty.parquet"
    pq.write_table(to_arrow_schema(rows.schema, timezone="UTC").empty_table(), empty)
    return [str(empty)]


def check_written(files: Iterable[Written]) -> None:
    """Raise LostFileError unless each of these files has the size and the rows that were reported."""
    for file in files:
        try:
            size, rows = os.stat(file.path).st_size, pq.read_metadata(file.path).num_rows
        except FileNotFoundError:
            present = "no such file here"
        except (OSError, pa.ArrowInvalid) as error:
            present = f"a file that cannot be read ({str(error).splitlines()[0]})"
        else:
            if (size, rows) == (file.size, file.rows):
                continue
            present = f"{size:,} bytes with {rows:,} rows"
        raise LostFileError(
            f"a Spark task wrote '{file.path}', but this process reads other content",
            found=present,
            expected=f"{file.size:,} bytes with {file.rows:,} rows",
            fix="nothing of the job was applied, and Headrace retries it; executors must share this folder",
        )


def _writer(folder: str, columns: list[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for mapInArrow: rows in, the report of their file out."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # A name of its own: a task that is repeated leaves the files of its other attempts alone.
        path = os.path.join(folder, f"{uuid.uuid4().hex}.parquet")
        rows, writer = 0, None
        for group in _groups(batches):
            group = group.cast(_nullable_schema(group.schema)).rename_columns(columns)
            if writer is None:
                os.makedirs(folder, exist_ok=True)
                # No dictionaries: most keys are there once in a pane. Nobody looks up rows, so no statistics.
                writer = pq.ParquetWriter(path, group.schema, use_dictionary=False, write_statistics=False)
            writer.write_table(group)
            rows += len(group)
        if writer is not None:
            writer.close()
            yield pa.RecordBatch.from_pylist([Written(path, os.stat(path).st_size, rows)._asdict()])

    return write


def _nullable_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with no field declared NOT NULL: a field within a NULL struct is NULL whatever Spark declares."""
    return pa.schema([pa.field(field.name, _nullable(field.type)) for field in schema])


def _nullable(of: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(of):
        return pa.struct([pa.field(field.name, _nullable(field.type)) for field in of])
    if pa.types.is_map(of):
        return pa.map_(of.key_type, _nullable(of.item_type))
    if pa.types.is_list(of):
        return pa.list_(pa.field(of.value_field.name, _nullable(of.value_type)))
    return of


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in pieces that are worth a row group."""
    group: list[pa.RecordBatch] = []
    for batch in batches:
        if len(batch):
            group.append(batch)
        if sum(map(len, group)) >= GROUP_ROWS or sum(each.nbytes for each in group) >= GROUP_BYTES:
            yield pa.Table.from_batches(group)
            group = []
    if group:
        yield pa.Table.from_batches(group)
