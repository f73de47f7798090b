"""The log of a stream in chunks: events in order of commit and position, read from the lake's files.

Which file holds an event does not matter, so compaction, restarts and replays of dead letters change nothing here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.define.model import Stream
from headrace.deliver.event_page import EventCursor
from headrace.errors import CorruptionError
from headrace.lake.added_fields import read_filled, shape_of
from headrace.lake.delta_table import LakeTable
from headrace.lake.table_schema import ARRIVED, COMMIT, POSITION, TABLES, table_schema

ROW = "_row"  # of a derived stream: the number of an event among those that were made of one
CHUNK_ROWS = 20_000  # about: a row group is read as a whole
_FILLING = threading.Lock()  # fields that a file lacks are computed by one DuckDB connection


@dataclass(frozen=True, order=True)
class _Group:
    """A row group of a file: its first and its last event."""

    low: EventCursor
    high: EventCursor
    path: str
    index: int
    rows: int


@dataclass(frozen=True)
class Chunk:
    """All events after one cursor up to another one, in order."""

    after: EventCursor
    until: EventCursor  # the last event of the chunk, or a later place before the next event
    events: pa.Table

    def covers(self, cursor: EventCursor) -> bool:
        """Whether what follows the cursor is in this chunk."""
        return self.after <= cursor < self.until


class Places:
    """Where the events of a table are in the log; finds those after a cursor."""

    def __init__(self, events: pa.Table) -> None:
        self.commits = _numbers(events, COMMIT)
        self.positions = _numbers(events, POSITION)
        self.rows = _numbers(events, ROW) if ROW in events.column_names else None

    def __len__(self) -> int:
        return len(self.commits)

    def __getitem__(self, index: int) -> EventCursor:
        place = int(self.commits[index]), int(self.positions[index])
        return EventCursor(*place) if self.rows is None else EventCursor(*place, int(self.rows[index]))

    def count_until(self, cursor: EventCursor) -> int:
        """How many of them are not after the cursor."""
        first = int(np.searchsorted(self.commits, cursor.commit, "left"))
        last = int(np.searchsorted(self.commits, cursor.commit, "right"))
        positions = self.positions[first:last]
        end = first + int(np.searchsorted(positions, cursor.position, "right"))
        if self.rows is None:
            return end
        start = first + int(np.searchsorted(positions, cursor.position, "left"))
        return start + int(np.searchsorted(self.rows[start:end], cursor.row, "right"))


def read_chunk(
    table: LakeTable, stream: Stream, after: EventCursor, rows: int = CHUNK_ROWS, names: Sequence[str] | None = None
) -> Chunk | None:
    """The next events after a cursor, at least `rows` unless the log ends; None if there are none.

    `names` are those of the fields to read, None: all; with TABLES among them, also the pins. An event of which not
    all rows have been read is in it.
    """
    end, after = table.state.next_commit, after.before
    if after >= EventCursor(end):
        return None
    with table.reading(after.commit, end) as files:
        unopened = deque((file.first_commit, table.storage.locate(file.path)) for file in files)
        waiting: list[_Group] = []
        groups: list[_Group] = []
        until = EventCursor(end)
        while True:
            # A file may begin before the next group if its first commit is not later.
            while unopened and (not waiting or unopened[0][0] <= waiting[0].low.commit):
                waiting += [group for group in _groups(unopened.popleft()[1]) if group.high > after]
                waiting.sort()
            if not waiting:
                break
            if sum(group.rows for group in groups) >= rows and waiting[0].low > after:
                until = EventCursor(waiting[0].low.commit, waiting[0].low.position - 1)
                break
            groups.append(waiting.pop(0))
        return Chunk(after, until, _read(groups, stream, after, until, names))


def count_until(table: LakeTable, cursor: EventCursor) -> int:
    """How many events of the log are not after a cursor."""
    total = 0
    with table.reading(0, cursor.commit + 1) as files:
        for file in files:
            if file.last_commit < cursor.commit:
                total += file.rows
            else:
                for group in _groups(table.storage.locate(file.path)):
                    total += group.rows if group.high <= cursor else 0
                    if group.low <= cursor < group.high:
                        total += Places(_sorted(_read_places(group.path, group.index))).count_until(cursor)
    return total


def cursor_of_last(table: LakeTable, count: int) -> EventCursor:
    """The cursor after which there are this many events, or all of them if there are fewer."""
    end = table.state.next_commit
    if not count:
        return EventCursor(end)
    with table.reading(0, end) as files:
        groups: list[_Group] = []
        unopened = sorted((file.last_commit, table.storage.locate(file.path)) for file in files)
        while unopened:
            groups += _groups(unopened.pop()[1])
            newest_unopened = unopened[-1][0] if unopened else -1
            if sum(group.rows for group in groups if group.low.commit > newest_unopened) >= count:
                break
    places = [_read_places(group.path, group.index) for group in groups]
    if not places:
        return EventCursor(0)
    ordered = Places(_sorted(pa.concat_tables(places)))
    first = ordered[max(0, len(ordered) - count)]
    return EventCursor(first.commit, first.position - 1)


@lru_cache(maxsize=1 << 14)
def _groups(path: str) -> tuple[_Group, ...]:
    """The row groups of a file. Cached: a file is written once."""
    groups = []
    try:
        for index, rows in enumerate(shape_of(path).groups):
            places = Places(_sorted(_read_places(path, index)))
            groups.append(_Group(places[0], places[len(places) - 1], path, index, rows))
    except (OSError, pa.ArrowException) as error:
        raise CorruptionError(
            f"a file of the lake cannot be read: '{path}': {str(error).splitlines()[0]}",
            fix="`headrace doctor` checks the lake",
        ) from error
    return tuple(groups)


def _read_places(path: str, group: int) -> pa.Table:
    with pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
        return file.read_row_group(group, [COMMIT, POSITION], use_threads=False)


def _read(
    groups: Sequence[_Group], stream: Stream, after: EventCursor, until: EventCursor, names: Sequence[str] | None
) -> pa.Table:
    fields = [field.name for field in stream.fields if names is None or field.name in names]
    pins = [TABLES] if names is not None and TABLES in names else []
    columns = [COMMIT, POSITION, ARRIVED, *pins, *fields]
    tables = [rows for group in groups for rows in read_group(group.path, group.index, stream, columns)]
    schema = table_schema(stream)
    empty = pa.schema([schema.field(name) for name in columns]).empty_table()
    events = _sorted(pa.concat_tables([empty, *tables]))
    places = Places(events)
    first = places.count_until(after)
    return events.slice(first, places.count_until(until) - first).combine_chunks()


def read_group(path: str, group: int, stream: Stream, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a row group, with these columns."""
    if shape_of(path).lacks(columns):
        with _FILLING:
            yield from list(read_filled(path, [group], stream, columns))
    else:
        yield from read_filled(path, [group], stream, columns)


def _sorted(events: pa.Table) -> pa.Table:
    places = Places(events)
    commits, positions = np.diff(places.commits), np.diff(places.positions)
    if bool(np.all((commits > 0) | ((commits == 0) & (positions > 0)))):
        return events
    return events.sort_by([(COMMIT, "ascending"), (POSITION, "ascending")])


def _numbers(events: pa.Table, name: str) -> npt.NDArray[np.int64]:
    return np.asarray(events.column(name).to_numpy(), dtype=np.int64)
