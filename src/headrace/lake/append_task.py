"""The task of a Spark worker for one range of the transport: read, parse, write Parquet, return the files.

What it writes is not part of the table until the driver commits it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from headrace.define.kafka_record import HEADERS, KEY, OFFSET, PARTITION, TIME, TOPIC
from headrace.define.model import Stream
from headrace.disk import disk_full, is_disk_full
from headrace.faults import fault_point
from headrace.lake.added_fields import Since, parse_since
from headrace.lake.lateness_histogram import Days, join_days, measure
from headrace.lake.parquet_file import LakeFileWriter, NewFile
from headrace.lake.repeated_events import Known, RepeatCheck, RepeatVerdict
from headrace.lake.storage import LocalStorage
from headrace.lake.table_schema import ARRIVED, DEAD, POSITION, Pins, no_pins, pin_column, table_schema
from headrace.parse.event_parser import Parsed
from headrace.parse.frames import frame_messages
from headrace.parse.record_columns import COLUMNS, record_columns, sent_records, utc_us
from headrace.parse.tombstones import has_deletes, read_deletes
from headrace.timing import later
from headrace.transport.position import Range
from headrace.transport.transport_contract import Reader, TransportEvents

Item = TypeVar("Item")


class RangeDerivation(Protocol):
    """An extra result that a worker makes of the good events of a range, while it has them in memory."""

    @property
    def reads(self) -> Sequence[str]:
        """The columns that it needs."""

    def run(self, events: pa.Table) -> str:
        """Return the result for the driver. It raises nothing: the events are in the lake's file either way."""


@dataclass(frozen=True)
class Work:
    """The values that all ranges of one commit share."""

    stream: Stream
    reader: Reader
    table: str
    commit: int
    committed_at_us: int
    newest_us: int | None  # the time of the stream before the commit
    since: Since = ()
    derivation: RangeDerivation | None = None
    pins: Pins = field(default_factory=no_pins)
    known: Known | None = None  # of a stream with UNIQUE: one task judges all ranges, in their order


@dataclass(frozen=True)
class RangeResult:
    """The result of a worker for a range."""

    part: Range
    newest_us: int | None
    files: tuple[NewFile, ...]
    derived: str | None
    lateness: Days = field(default_factory=dict)
    verdict: RepeatVerdict | None = None  # of all ranges of a stream with UNIQUE: only the last result has it

    def order(self) -> tuple[int, int]:
        """By partition and start."""
        return self.part.partition, self.part.start


def verdict_of(results: Iterable[RangeResult]) -> RepeatVerdict:
    """The verdict about the events of all ranges of a commit."""
    return next((result.verdict for result in results if result.verdict), RepeatVerdict())


def range_writer(work: Work) -> Callable[[Iterable[Range]], Iterator[RangeResult]]:
    """A function for mapPartitions: ranges in, one result for each out."""

    def write(ranges: Iterable[Range]) -> Iterator[RangeResult]:
        if work.known is not None:
            yield from _write_unique(work, work.known, ranges)
            return
        for part in ranges:
            yield _write_range(work, part)

    return write


def _write_unique(work: Work, known: Known, ranges: Iterable[Range]) -> list[RangeResult]:
    """The results of all ranges; if ids are missing that decide about their events, these have no files."""
    check = RepeatCheck(known)
    results = [_write_range(work, part, check) for part in ranges]
    verdict = check.finish()
    if verdict.missing:
        for path in (file.path for result in results for file in result.files):
            LocalStorage(work.table).remove(path)
        results = [RangeResult(result.part, None, (), None) for result in results]
    return [*results[:-1], replace(results[-1], verdict=verdict)]


def _write_range(work: Work, part: Range, check: RepeatCheck | None = None) -> RangeResult:
    # Ids are found again by event time: its bounds say where.
    bounds = [work.stream.time_column] if check else []
    live = LakeFileWriter(LocalStorage(work.table), work.commit, dead=False, statistics=bounds)
    dead = LakeFileWriter(LocalStorage(work.table), work.commit, dead=True)
    try:
        return _write_files(work, part, live, dead, check)
    except BaseException as error:
        live.abandon()
        dead.abandon()
        if is_disk_full(error):
            raise disk_full(f"the lake of stream '{work.stream.name}' cannot be written", Path(work.table)) from None
        raise


def _write_files(
    work: Work, part: Range, live: LakeFileWriter, dead: LakeFileWriter, check: RepeatCheck | None = None
) -> RangeResult:
    newest: int | None = None
    derivation = work.derivation
    inputs: list[pa.Table] = []
    lateness: list[Days] = []
    # One task does the work of several: it parses the next events while it judges and writes these.
    blocks = _ahead(_read_blocks(work, part)) if check else _read_blocks(work, part)
    for table, reasons in blocks:
        if reasons is None:
            good, bad = table, None
        else:
            is_good = pc.is_null(reasons)
            good, bad = table.filter(is_good), table.filter(pc.invert(is_good))
        if check:
            good, repeats = check.split(good)
            if check.missing:
                continue  # all is judged again; what else is missing is found now
            letters = [rows for rows in (bad, repeats) if rows is not None]
            bad = pa.concat_tables(letters).sort_by(POSITION) if letters else None
        if bad is not None:
            dead.write(bad)
        live.write(good)
        if derivation:
            inputs.append(good.select(derivation.reads))
        lateness.append(measure(work.stream, good))
        newest = later(newest, newest_of(work.stream, good))
    fault_point("append.in_worker")
    files = tuple(file for file in (live.close(), dead.close()) if file)
    is_checked = check is None or not check.missing
    derived = derivation.run(pa.concat_tables(inputs)) if derivation and inputs and is_checked else None
    return RangeResult(part, newest, files, derived, join_days(lateness))


def _read_blocks(work: Work, part: Range) -> Iterator[tuple[pa.Table, pa.Array | None]]:
    """The rows of a range, some megabytes at a time, and why some of them are dead letters."""
    for events in work.reader.read(part, work.stream.format):
        events = _with_deletes(work.stream, events)
        records = read_records(work.stream, events)
        parsed = parse_since(work.stream, work.since, events.frames, events.positions, events.arrived_us, records)
        if events.reasons is not None:
            reasons = events.reasons if parsed.reasons is None else pc.coalesce(events.reasons, parsed.reasons)
            parsed = Parsed(parsed.columns, reasons)
        yield _rows(work, events, parsed, records), parsed.reasons


def _with_deletes(stream: Stream, events: TransportEvents) -> TransportEvents:
    """The events, where messages of a table without a value are deletes."""
    if events.reasons is None or events.metadata is None or not has_deletes(stream):
        return events
    key = events.metadata.key()
    values, reasons = read_deletes(stream, list(events.frames), events.reasons, key, events.arrived_us)
    return replace(events, frames=frame_messages(values, trim=True), reasons=reasons)


def _ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Make each item in another thread while the one before is used."""
    end = object()
    with ThreadPoolExecutor(1) as thread:
        upcoming = thread.submit(next, items, end)
        while (item := upcoming.result()) is not end:
            upcoming = thread.submit(next, items, end)
            yield item  # type: ignore[misc]  # not the end


def read_records(stream: Stream, events: TransportEvents) -> pa.Table | None:
    """The Kafka records around these events; None if they are not from Kafka."""
    if stream.source is None:
        return None
    metadata = events.metadata
    if metadata is None:
        return sent_records(stream.source, len(events.frames), events.arrived_us)
    columns = {
        KEY: metadata.key(),
        HEADERS: metadata.headers(),
        TIME: metadata.timestamp(),
        TOPIC: metadata.topic(),
        PARTITION: metadata.partition(),
        OFFSET: metadata.offset(),
    }
    return pa.table({COLUMNS[part]: column for part, column in columns.items()}).cast(record_columns())


def _rows(work: Work, events: TransportEvents, parsed: Parsed, records: pa.Table | None) -> pa.Table:
    count = len(events.frames)
    reserved = [
        _constant(work.commit, pa.int64(), count),
        _constant(work.committed_at_us, utc_us(), count),
        pa.array(events.arrived_us).cast(utc_us()),
        _constant(work.newest_us, utc_us(), count),
        pa.array(events.positions),
        parsed.reasons if parsed.reasons is not None else pa.nulls(count, pa.string()),
        events.frames.values(),
        pin_column(work.pins, count),
        *(records.columns if records is not None else ()),
    ]
    names = [name for name in table_schema(work.stream).names if name != DEAD]
    return pa.table([*reserved, *parsed.columns.columns], names=names)


def _constant(value: int | None, type_: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int64()).cast(type_), count)


def newest_of(stream: Stream, rows: pa.Table) -> int | None:
    """The newest event time. One that is later than the arrival counts as the arrival: clocks may run ahead."""
    if not len(rows):
        return None
    arrived = rows.column(ARRIVED).cast(pa.int64())
    if stream.event_time is None:
        return int(pc.max(arrived).as_py())
    return int(pc.max(pc.min_element_wise(rows.column(stream.event_time).cast(pa.int64()), arrived)).as_py())
