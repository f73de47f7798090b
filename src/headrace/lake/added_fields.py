"""Fields added to a stream later: filled from the stored bytes of older events, which are not refused for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.define.kafka_source import read_delimiter
from headrace.define.model import CSV, Stream
from headrace.engine.duckdb_session import Computing
from headrace.lake.parquet_file import of_group
from headrace.lake.table_schema import COMMIT, REASON, TABLES, VALUE, no_pins, pin_column, table_schema
from headrace.parse.csv_rows import RowReader
from headrace.parse.event_parser import Parsed, Parser, read_text
from headrace.parse.frames import Frames, frame_values
from headrace.parse.json_objects import LenientReader, put_back
from headrace.parse.record_columns import RecordReader, columns_of
from headrace.transport.position import START, Position, event_base


@dataclass(frozen=True)
class FileShape:
    """The facts of a file's footer: the columns that it has and the rows of its row groups."""

    names: frozenset[str]
    groups: tuple[int, ...]

    def lacks(self, columns: Collection[str]) -> bool:
        """Return whether one of these columns is not in the file."""
        return not self.names.issuperset(columns)


@lru_cache(maxsize=1 << 16)
def shape_of(path: str) -> FileShape:
    """The shape of a file of a lake. It never changes: a file is written once."""
    with pq.ParquetFile(path) as file:
        groups = tuple(file.metadata.row_group(index).num_rows for index in range(file.num_row_groups))
        return FileShape(frozenset(file.schema_arrow.names), groups)


@dataclass(frozen=True)
class Fill:
    """The inputs of a worker that reads pieces of files. A row of its input is the index of a piece."""

    stream: Stream
    columns: tuple[str, ...]  # reserved columns and fields, in the order of the result
    commits: tuple[int, int] | None  # [from, to); None: all
    pieces: tuple[tuple[str, int], ...]  # path and row group


def piece_reader(work: Fill) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for mapInArrow: numbers of pieces in, their rows out."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                path, group = work.pieces[number]
                for rows in read_filled(path, [group], work.stream, work.columns):
                    yield from _within(rows, work.commits).to_batches()

    return read


def read_filled(path: str, groups: Sequence[int], stream: Stream, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of these row groups of a file, with all of these columns and the types that the stream has now."""
    filling = _filling(stream, shape_of(path).names, tuple(columns))
    with pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
        for group in groups:
            for rows in of_group(file, group, filling.stored):
                yield filling.fill(rows)


class _Filling:
    """Makes the columns of the result from those that a file has."""

    def __init__(self, stream: Stream, names: frozenset[str], columns: Sequence[str]) -> None:
        absent = [field for field in stream.fields if field.name in columns and field.name not in names]
        to_compute = [field for field in absent if field.computed]
        input_names = {name for field in to_compute if field.computed for name in field.computed.fields()}
        missing = [field for field in stream.fields if not field.computed and field.name not in names]
        missing = [field for field in missing if field.name in columns or field.name in input_names]
        declared = [field for field in missing if field.record is None]
        of_records = [field for field in missing if field.record is not None]
        inputs = [field.name for field in stream.fields if field.name in input_names and field.name in names]
        self._schema = table_schema(stream)
        self._lacks_pins = TABLES in columns and TABLES not in names
        self._format = stream.format
        sent = [field for field in stream.fields if field.is_sent]
        self._rows = RowReader(sent, read_delimiter(stream.source)) if stream.format == CSV else None
        self._lenient = LenientReader(declared) if declared else None
        self._computing = Computing(stream, to_compute)
        self._target = pa.schema([self._schema.field(name) for name in columns])
        self.stored = list(dict.fromkeys([name for name in columns if name in names] + inputs))
        needed = ([VALUE] if declared else []) + columns_of(of_records)
        self.stored += [name for name in needed if name not in self.stored]
        self._of_records = [field.name for field in of_records]
        self._records = RecordReader(of_records, [field.name for field in of_records])

    def _frames(self, values: pa.Array) -> Frames:
        """The events as JSON."""
        frames = frame_values(self._format, values)
        return frames if self._rows is None else self._rows.read(read_text(frames)[0])[0]

    def fill(self, rows: pa.Table) -> pa.Table:
        rows = rows.cast(pa.schema([self._schema.field(name) for name in rows.column_names]))
        if self._lacks_pins:
            rows = rows.append_column(TABLES, pin_column(no_pins(), len(rows)))
        if self._lenient is not None:
            values = rows.column(VALUE).combine_chunks()
            later = self._lenient.read(self._frames(values))
            for field, column in zip(later.schema, later.columns, strict=True):
                rows = rows.append_column(field, column)
        for name, values in zip(self._of_records, self._records.read(rows)[0], strict=True):
            rows = rows.append_column(name, values)
        return self._computing.add_to(rows).select(self._target.names).cast(self._target)


@lru_cache(maxsize=32)
def _filling(stream: Stream, names: frozenset[str], columns: tuple[str, ...]) -> _Filling:
    """Cached: a worker reads many files."""
    return _Filling(stream, names, columns)


def _within(rows: pa.Table, commits: tuple[int, int] | None) -> pa.Table:
    if commits is None:
        return rows
    commit = rows.column(COMMIT)
    return rows.filter(pc.and_(pc.greater_equal(commit, commits[0]), pc.less(commit, commits[1])))


Since = tuple[tuple[str, Position], ...]  # fields, each with the position at which it was added


@lru_cache(maxsize=32)
def parser_of(stream: Stream, lenient: frozenset[str] = frozenset()) -> Parser:
    """The parser of a stream. Cached: a worker parses many ranges."""
    return Parser(stream, lenient)


def parse_since(
    stream: Stream,
    since: Since,
    frames: Frames,
    positions: npt.NDArray[np.int64],
    arrived_us: npt.NDArray[np.int64],
    records: pa.Table | None = None,
) -> Parsed:
    """Typed columns and verdicts. Refused events are parsed again without the fields that were added after them."""
    parsed = parser_of(stream).parse(frames, arrived_us, records)
    if parsed.reasons is None or not since:
        return parsed
    rows = parsed.columns.append_column(REASON, parsed.reasons)
    refused = np.asarray(parsed.reasons.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    start = START
    for until in sorted({position for _, position in since}, key=lambda position: sum(position.offsets)):
        these = refused & ~_before(start, positions) & _before(until, positions)
        start = until
        if these.any():
            lenient = frozenset(name for name, position in since if position.covers(until))
            again_records = records.filter(pa.array(these)) if records is not None else None
            again = parser_of(stream, lenient).parse(frames.take(these), arrived_us[these], again_records)
            reasons = pa.nulls(len(again.columns), pa.string()) if again.reasons is None else again.reasons
            rows = put_back(rows, these, again.columns.append_column(REASON, reasons))
    return Parsed(rows.drop_columns([REASON]), rows.column(REASON).combine_chunks())


def _before(position: Position, events: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Mark the events that a position covers, by their own positions."""
    covered = np.zeros(len(events), dtype=bool)
    for partition, offset in enumerate(position.offsets):
        covered |= (events >= event_base(partition)) & (events < event_base(partition) + offset)
    return covered
