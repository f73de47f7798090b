"""What a Spark worker does with one file of dead letters: parse them again, and put the readable ones aside.

It writes nothing into the lake's folder: the driver moves its files there with the commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.define.model import Stream
from headrace.define.kafka_record import KEY
from headrace.lake.batches import MOST_BYTES, batches
from headrace.lake.file import LakeFileWriter
from headrace.lake.pins import no_pins, pin_column
from headrace.lake.range import newest_of
from headrace.lake.schema import ARRIVED, COMMIT, DEAD, POSITION, REASON, TABLES, VALUE, reserved_schema
from headrace.lake.since import Since, parse_since
from headrace.lake.storage import LocalStorage
from headrace.parse.frames import frame_values
from headrace.parse.parser import Parsed
from headrace.parse.record import COLUMNS, record_columns
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
    """What all files of one step share."""

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
