"""The events in a lake's files as a Spark data frame, with every field of the stream, even if a file lacks it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from headrace.define.kafka_record import HEADERS, KEY, OFFSET, PARTITION, TIME, TOPIC
from headrace.define.model import Stream
from headrace.lake.added_fields import Fill, piece_reader, shape_of
from headrace.lake.storage import Storage
from headrace.lake.table_files import LakeFile
from headrace.lake.table_schema import ARRIVED, COMMIT, COMMITTED_AT, NEWEST, POSITION, TABLES, VALUE
from headrace.language.terms import in_backticks
from headrace.parse.record_columns import COLUMNS

TASK_ROWS = 100_000  # that one task fills: a few tenths of a second
_RESERVED_TYPES = {
    COMMIT: "BIGINT",
    COMMITTED_AT: "TIMESTAMP",
    ARRIVED: "TIMESTAMP",
    NEWEST: "TIMESTAMP",
    POSITION: "BIGINT",
    VALUE: "BINARY",
    TABLES: "MAP<STRING, BIGINT>",
    COLUMNS[KEY]: "BINARY",
    COLUMNS[HEADERS]: "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    COLUMNS[TIME]: "TIMESTAMP",
    COLUMNS[TOPIC]: "STRING",
    COLUMNS[PARTITION]: "INT",
    COLUMNS[OFFSET]: "BIGINT",
}


def event_columns(stream: Stream, reserved: Sequence[str], fields: Collection[str] | None = None) -> str:
    """The columns of such a table, as SQL declares them; `fields` are the only ones that are read, if given."""
    fields_sql = [f"{in_backticks(f.name)} {f.type}" for f in stream.fields if fields is None or f.name in fields]
    return ", ".join([*(f"{name} {_RESERVED_TYPES[name]}" for name in reserved), *fields_sql])


def read_files(
    spark: SparkSession,
    storage: Storage,
    stream: Stream,
    files: Sequence[LakeFile],
    reserved: Sequence[str],
    *,
    fields: Collection[str] | None = None,
    commits: tuple[int, int] | None = None,
) -> DataFrame:
    """The rows of these files. Spark reads files that have all columns; workers fill the others from `_value`."""
    columns = event_columns(stream, reserved, fields)
    names = [field.name for field in stream.fields if fields is None or field.name in fields]
    paths = [storage.locate(file.path) for file in files]
    lacking = {path for path in paths if _lacks(path, names)}
    if commits and all(commits[0] <= file.first_commit and file.last_commit < commits[1] for file in files):
        commits = None
    parts = []
    if plain := [path for path in paths if path not in lacking]:
        rows = spark.read.schema(columns).parquet(*plain)
        parts.append(rows if commits is None else rows.where(F.col(COMMIT).between(commits[0], commits[1] - 1)))
    if lacking:
        pieces = [(path, group) for path in paths if path in lacking for group in range(len(shape_of(path).groups))]
        work = Fill(stream, (*reserved, *names), commits, tuple(pieces))
        rows_lacking = sum(sum(shape_of(path).groups) for path in lacking)
        tasks = max(1, min(len(pieces), rows_lacking // TASK_ROWS))
        parts.append(spark.range(0, len(pieces), 1, tasks).mapInArrow(piece_reader(work), columns))
    if not parts:
        return spark.createDataFrame([], columns)
    return parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])


def _lacks(path: str, names: Collection[str]) -> bool:
    """Return whether a file lacks a column. One that cannot be read is an error later, when Spark reads it."""
    try:
        return shape_of(path).lacks(names)
    except (OSError, pa.ArrowException):
        return False
