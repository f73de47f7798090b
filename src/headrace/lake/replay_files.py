"""Replay of files of dead letters in Spark's workers: parses them again, and refuses events that repeat one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.define.kafka_record import KEY
from headrace.define.model import Stream
from headrace.lake.added_fields import Since, parse_since
from headrace.lake.append_task import newest_of
from headrace.lake.parquet_file import MOST_BYTES, LakeFileWriter, NewFile, batches
from headrace.lake.repeated_events import RepeatCheck
from headrace.lake.storage import LocalStorage
from headrace.lake.table_schema import (
    ARRIVED,
    COMMIT,
    DEAD,
    POSITION,
    REASON,
    TABLES,
    VALUE,
    no_pins,
    pin_column,
    reserved_schema,
)
from headrace.parse.event_parser import Parsed
from headrace.parse.frames import frame_values
from headrace.parse.record_columns import COLUMNS, record_columns
from headrace.parse.tombstones import NO_VALUE, has_deletes, read_deletes
from headrace.timing import later

BEFORE = "_reason_before"  # in files of events of a stream with UNIQUE that are put aside
REREAD = "path STRING, rows BIGINT, readable BIGINT, new_reasons BIGINT, newest_us BIGINT, aside STRING, rest STRING"
_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("readable", pa.int64()),
        ("new_reasons", pa.int64()),  # of those that stay dead letters
        ("newest_us", pa.int64()),  # of the readable ones
        ("aside", pa.string()),  # Parquet with the readable ones, until they are committed
        ("rest", pa.string()),  # a file with the others, to be moved to the lake, as JSON
    ]
)


@dataclass(frozen=True)
class Reread:
    """The values that all files of one step share."""

    stream: Stream
    table: str
    aside: str | None  # folder for what is written; None: only count
    since: Since = ()
    batch_bytes: int = MOST_BYTES


def dead_file_reader(work: Reread) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for mapInArrow: rows (path) in, one result for each file out."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch["path"].to_pylist():
                yield pa.RecordBatch.from_pylist([_reread(work, path)], _SCHEMA)

    return read


def _reread(work: Reread, path: str) -> dict[str, object]:
    aside = Aside(work.aside)
    rest: LakeFileWriter | None = None
    rows = readable = new_reasons = 0
    newest: int | None = None
    names = [name for name in reserved_schema(work.stream).names if name != DEAD]
    for before in batches(Path(LocalStorage(work.table).locate(path)), names, work.batch_bytes):
        if TABLES not in before.column_names:  # a file of an older release
            before = before.add_column(names.index(TABLES), TABLES, pin_column(no_pins(), len(before)))
        before, no_value = _with_deletes(work.stream, before)
        now = _rows(before, _parse(work, before, no_value))
        is_good = pc.is_null(now.column(REASON))
        good, bad = now.filter(is_good), now.filter(pc.invert(is_good))
        rows, readable = rows + len(now), readable + len(good)
        newest = later(newest, newest_of(work.stream, good))
        new_reasons += pc.sum(pc.not_equal(now.column(REASON), before.column(REASON))).as_py() or 0
        if work.aside is not None:
            rest = rest or LakeFileWriter(LocalStorage(work.aside), before.column(COMMIT)[0].as_py(), dead=True)
            if work.stream.unique is not None:  # those that repeat an event stay dead letters
                good = good.append_column(BEFORE, before.column(REASON).filter(is_good))
            aside.write(good)
            rest.write(bad)
    rest_file = rest.close() if rest else None
    return {
        "path": path,
        "rows": rows,
        "readable": readable,
        "new_reasons": new_reasons,
        "newest_us": newest,
        "aside": aside.close(),
        "rest": orjson.dumps(asdict(rest_file)).decode() if rest_file else None,
    }


def _with_deletes(stream: Stream, letters: pa.Table) -> tuple[pa.Table, pa.Array | None]:
    """The letters, where messages of a table without a value are deletes; and why others still have none."""
    reasons = letters.column(REASON).combine_chunks()
    is_tombstone = pc.match_substring_regex(reasons, f"^{NO_VALUE}")
    if stream.source is None or not has_deletes(stream) or not pc.any(is_tombstone).as_py():
        return letters, None
    only = pc.if_else(is_tombstone, reasons, pa.scalar(None, pa.string()))
    values, key = letters.column(VALUE).to_pylist(), letters.column(COLUMNS[KEY]).combine_chunks()
    arrived_us = np.asarray(letters.column(ARRIVED).cast(pa.int64()).to_numpy(), dtype=np.int64)
    values, only = read_deletes(stream, values, only, key, arrived_us)
    place = letters.schema.get_field_index(VALUE)
    return letters.set_column(place, letters.schema.field(VALUE), pa.array(values, pa.binary())), only


def _parse(work: Reread, letters: pa.Table, no_value: pa.Array | None) -> Parsed:
    values = letters.column(VALUE).combine_chunks()
    positions, arrived_us = (
        np.asarray(letters.column(name).cast(pa.int64()).to_numpy(), dtype=np.int64) for name in (POSITION, ARRIVED)
    )
    frames = frame_values(work.stream.format, values)
    records = letters.select(record_columns().names) if work.stream.source else None
    parsed = parse_since(work.stream, work.since, frames, positions, arrived_us, records)
    if no_value is None:
        return parsed
    return Parsed(parsed.columns, no_value if parsed.reasons is None else pc.coalesce(no_value, parsed.reasons))


def _rows(letters: pa.Table, parsed: Parsed) -> pa.Table:
    """The rows as if the events arrived now: verdicts and fields are new, the other columns stay."""
    reasons = parsed.reasons if parsed.reasons is not None else pa.nulls(len(letters), pa.string())
    rows = letters.set_column(letters.schema.get_field_index(REASON), REASON, reasons)
    for field, column in zip(parsed.columns.schema, parsed.columns.columns, strict=True):
        rows = rows.append_column(field, column)
    return rows


class Aside:
    """Rows that wait for the number of their commit, in a file of their own."""

    def __init__(self, folder: str | None) -> None:
        self._path = Path(folder or ".") / f"{uuid.uuid4().hex}.parquet"
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table) -> None:
        if len(rows):
            self._writer = self._writer or pq.ParquetWriter(self._path, rows.schema, compression="lz4")
            self._writer.write_table(rows)

    def close(self) -> str | None:
        if self._writer is None:
            return None
        self._writer.close()
        return str(self._path)


@dataclass(frozen=True)
class ReadableFile:
    """The result of one file of dead letters."""

    path: str
    rows: int
    readable: int
    new_reasons: int  # of those that stay dead letters
    newest_us: int | None  # of the readable ones
    aside: str | None  # Parquet with the readable ones
    rest: tuple[NewFile, ...]  # files with the others, put aside too

    @classmethod
    def of(cls, row: Any) -> Self:
        """The result that a worker returned."""
        rest = (NewFile(**orjson.loads(row.rest)),) if row.rest else ()
        return cls(row.path, row.rows, row.readable, row.new_reasons, row.newest_us, row.aside, rest)

    @property
    def changes(self) -> bool:
        """Return whether the file is replaced."""
        return bool(self.readable or self.new_reasons)


def split_letters(
    check: RepeatCheck, stream: Stream, results: Sequence[ReadableFile], folder: Path, batch_bytes: int = MOST_BYTES
) -> list[ReadableFile]:
    """The results where only events that count are readable. What is written is put aside in the folder."""
    return [_split_file(check, stream, result, folder, batch_bytes) for result in results]


def _split_file(
    check: RepeatCheck, stream: Stream, result: ReadableFile, folder: Path, batch_bytes: int
) -> ReadableFile:
    if result.aside is None:
        return result
    aside, again = Aside(str(folder)), None
    readable, new_reasons, newest = 0, result.new_reasons, None
    for rows in batches(Path(result.aside), most_bytes=batch_bytes):
        good, repeats = check.split(rows)
        good = good.drop_columns([BEFORE])
        aside.write(good)
        readable, newest = readable + len(good), later(newest, newest_of(stream, good))
        if repeats is not None:
            new_reasons += pc.sum(pc.not_equal(repeats.column(REASON), repeats.column(BEFORE))).as_py() or 0
            again = again or LakeFileWriter(LocalStorage(folder), rows.column(COMMIT)[0].as_py(), dead=True)
            again.write(repeats.drop_columns([BEFORE]))
    file = again.close() if again else None
    rest = (*result.rest, file) if file else result.rest
    judged = replace(result, readable=readable, new_reasons=new_reasons, newest_us=newest)
    return replace(judged, aside=aside.close(), rest=rest)
