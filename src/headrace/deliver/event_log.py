"""The events of a stream as they come, from the lake. Its readers share what was read, selected and encoded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa

from headrace.define.model import Stream
from headrace.deliver.derived_events import DerivedReader
from headrace.deliver.event_chunks import CHUNK_ROWS, ROW, Chunk, Places, count_until, cursor_of_last, read_chunk
from headrace.deliver.event_page import EARLIEST, LATEST, START, Columns, EventCursor, EventPage
from headrace.deliver.filters import EventFilter, make_filter
from headrace.deliver.notifier import Notifier
from headrace.deliver.table_changes import TableChanges
from headrace.errors import QuestionError
from headrace.format import iso_us
from headrace.lake.commit_times import reading_commits
from headrace.lake.delta_table import LakeTable
from headrace.lake.table_schema import ARRIVED, COMMIT, POSITION
from headrace.serve.json_values import encoder
from headrace.serve.question_times import parse_bound

MOST_BYTES = 64 << 20  # of events in memory, for each stream; the chunk that was read last is always kept
MOST_CHUNKS = 200
PAGE_EVENTS = 500  # that are written as JSON at once
MOST_PAGES = 200  # of these in memory, for each stream
MOST_EMPTY = 50  # chunks without a selected event that one page reads: then it ends, with a later cursor
FROM = "earliest, latest, a cursor such as 12-4096, or a time such as 2026-03-01T12:00:00Z or -10m"


class SelectedEvents:
    """The events of a chunk that a filter selects."""

    def __init__(self, chunk: Chunk, stream: Stream, filter: EventFilter | None, base: str | None) -> None:
        self.chunk = chunk
        self.events = filter.select(chunk.events) if filter else chunk.events
        self.places = Places(self.events)
        self._encode = _encoder(stream, base)

    def lines(self, start: int, end: int) -> tuple[bytes, ...]:
        """The JSON of these events."""
        return tuple(self._encode(self.events.slice(start, end - start)))


class EventLog:
    """Reads the events of one stream. Safe for any thread; readers near the end of the log read each file once.

    With `derived` these are the events of a derived stream that are made of those in the table, whose own log is
    `base`.
    """

    def __init__(
        self,
        table: LakeTable,
        stream: Callable[[], Stream],
        derived: Callable[[], Stream] | None = None,
        base: EventLog | None = None,
        tables: TableChanges | None = None,
    ) -> None:
        """`tables` are those that the events of a derived stream are joined to."""
        self.table = table
        self._base = stream
        self._stream = derived or stream
        self._is_derived = derived is not None
        self._tables = tables
        self._derivation: DerivedReader | None = None
        self._read = threading.Lock()  # one thread reads files; the others find what it has read
        self._lock = threading.Lock()  # of the caches
        self._chunks: OrderedDict[EventCursor, Chunk] = OrderedDict()
        self._selected: OrderedDict[tuple[EventCursor, EventFilter | None], SelectedEvents] = OrderedDict()
        self._pages: OrderedDict[tuple[int, int], tuple[SelectedEvents, tuple[bytes, ...]]] = OrderedDict()
        self._of: tuple[Stream, Stream] | None = None  # whose fields the caches have
        self.notifier: Notifier = base.notifier if base else Notifier()
        if base is None:
            table.on_commit = self.notifier.notify

    @property
    def stream(self) -> Stream:
        """Its definition now."""
        return self._stream()

    @property
    def parts(self) -> dict[str, EventLog]:
        """The logs that it is made of, by base stream: itself."""
        return {self._base().name: self}

    @property
    def tables(self) -> tuple[LakeTable, ...]:
        """The lakes that it reads."""
        return (self.table,)

    @property
    def end(self) -> EventCursor:
        """After the last event of the log."""
        return EventCursor(self.table.state.next_commit)

    @property
    def columns(self) -> Columns:
        """The fields of its events."""
        return tuple((field.name, field.type) for field in self.stream.fields)

    def filter(self, where: str | None, key: Mapping[str, Any] | None = None) -> EventFilter | None:
        """The filter of a reader; see `make_filter`."""
        return make_filter(self.stream, where, key)

    def start(self, text: str | datetime | None, default: str = LATEST) -> EventCursor:
        """The cursor that `from` means."""
        if isinstance(text, str):
            text = text.strip()
        if not text or text in (EARLIEST, LATEST):
            return START if (text or default) == EARLIEST else self.end
        if isinstance(text, str) and EventCursor.is_cursor(text):
            return self.check(self.parse(text))
        try:
            bound = parse_bound("from", text)
        except QuestionError as error:
            raise QuestionError("from is not a place in a stream", found=repr(text)[:80], expected=FROM) from error
        assert bound is not None, "empty text was read before"
        time_us = bound.ms * 1000
        if bound.relative:
            time_us += round(datetime.now(UTC).timestamp() * 1e6)
        with reading_commits(self.table) as commits:
            return EventCursor(commits.count_until(time_us - 1))

    def parse(self, text: str) -> EventCursor:
        """The cursor of a text."""
        return EventCursor.from_text(text)

    def check(self, cursor: EventCursor) -> EventCursor:
        """The cursor, if the log has it: events between its end and a cursor beyond it would be skipped."""
        if cursor > self.end:
            raise QuestionError(
                f"stream '{self.stream.name}' has no cursor {cursor.to_text()}",
                found=f"a log of {self.end.commit:,} commits",
                expected="the cursor of an event of this stream",
                fix="read from earliest or latest",
            )
        return cursor

    def start_of_last(self, count: int) -> EventCursor:
        """The cursor after which there are this many events, or all if there are fewer."""
        cursor, looked_at = cursor_of_last(self.table, count), count
        while self._is_derived and count:
            places = [orjson.loads(line)["cursor"] for line in self.until(cursor, self.end, None)]
            if len(places) > count:
                return self.parse(places[-count - 1])
            if len(places) == count or looked_at >= self.table.rows():
                break
            looked_at *= 4  # so many events of the base stream made too few
            cursor = cursor_of_last(self.table, looked_at)
        return cursor

    def lag(self, cursor: EventCursor) -> int:
        """How many events of the log are after a cursor; of a derived stream, those of its base stream."""
        return self.table.rows() - count_until(self.table, min(cursor, self.end))

    def after(self, cursor: EventCursor, filter: EventFilter | None, limit: int) -> EventPage:
        """The next events after a cursor that a filter selects. The page may be empty and still have a later cursor."""
        lines: list[bytes] = []
        for _ in range(MOST_EMPTY):
            selected = self._selected_at(cursor, filter, read=True)
            if selected is None:
                break
            next_lines, cursor = self._take(selected, cursor, limit - len(lines))
            lines += next_lines
            if lines and (len(lines) >= limit or cursor < self.end):
                break
        return EventPage(self.stream.name, tuple(lines), cursor, cursor < self.end, self.columns)

    def rows_after(
        self, cursor: EventCursor, filter: EventFilter | None, limit: int
    ) -> tuple[pa.Table, EventCursor] | None:
        """The next events after a cursor that a filter selects, as Arrow, and the cursor after them.

        None if the log ends; there may be no events and still a later cursor.
        """
        selected = self._selected_at(cursor, filter, read=True, rows=limit)
        if selected is None:
            return None
        first = selected.places.count_until(cursor)
        end = min(len(selected.places), first + limit)
        return selected.events.slice(first, end - first), self._cursor_after(selected, end)

    def until(self, cursor: EventCursor, last: EventCursor, filter: EventFilter | None) -> tuple[bytes, ...]:
        """The events after a cursor up to another one."""
        lines: list[bytes] = []
        while cursor < last:
            selected = self._selected_at(cursor, filter, read=True)
            if selected is None:
                break
            first, end = selected.places.count_until(cursor), selected.places.count_until(last)
            lines += self._lines(selected, first, end)
            cursor = selected.chunk.until
        return tuple(lines)

    def recent(self, cursor: EventCursor, filter: EventFilter | None, limit: int) -> EventPage | None:
        """The same as `after` if it is in memory: never waits, and returns None otherwise."""
        selected = self._selected_at(cursor, filter, read=False)
        if selected is None:
            return None
        first = selected.places.count_until(cursor)
        page = self._known_page(selected, first, min(len(selected.places), first + limit))
        if page is None:
            return None
        cursor = self._cursor_after(selected, first + len(page))
        return EventPage(self.stream.name, page, cursor, cursor < self.end, self.columns)

    def _take(self, selected: SelectedEvents, cursor: EventCursor, limit: int) -> tuple[tuple[bytes, ...], EventCursor]:
        first = selected.places.count_until(cursor)
        end = min(len(selected.places), first + limit)
        return self._lines(selected, first, end), self._cursor_after(selected, end)

    @staticmethod
    def _cursor_after(selected: SelectedEvents, count: int) -> EventCursor:
        """The cursor after the first `count` events that are selected."""
        return selected.chunk.until if count == len(selected.places) else selected.places[count - 1]

    def _lines(self, selected: SelectedEvents, first: int, end: int) -> tuple[bytes, ...]:
        """Events as JSON, in pages that are the same for all readers."""
        lines: list[bytes] = []
        for start in range(first - first % PAGE_EVENTS, end, PAGE_EVENTS):
            page = self._page(selected, start)
            lines += page[max(0, first - start) : end - start]
        return tuple(lines)

    def _page(self, selected: SelectedEvents, start: int) -> tuple[bytes, ...]:
        key = (id(selected), start)
        with self._lock:
            if key in self._pages:
                self._pages.move_to_end(key)
                return self._pages[key][1]
        lines = selected.lines(start, min(start + PAGE_EVENTS, len(selected.places)))
        with self._lock:
            self._pages[key] = (selected, lines)  # which stays in memory, so that no other one has its id
            while len(self._pages) > MOST_PAGES:
                self._pages.popitem(last=False)
        return lines

    def _known_page(self, selected: SelectedEvents, first: int, end: int) -> tuple[bytes, ...] | None:
        lines: list[bytes] = []
        with self._lock:
            for start in range(first - first % PAGE_EVENTS, end, PAGE_EVENTS):
                entry = self._pages.get((id(selected), start))
                if entry is None:
                    return None
                if first == start and end - start == len(entry[1]):
                    return entry[1]  # the same object for all readers
                lines += entry[1][max(0, first - start) : end - start]
        return tuple(lines)

    def _selected_at(
        self, cursor: EventCursor, filter: EventFilter | None, *, read: bool, rows: int = 0
    ) -> SelectedEvents | None:
        """The events of the chunk that follows a cursor; None if there is none, or it would have to be read."""
        stream, base = self.stream, self._base()
        chunk = self._known_chunk(cursor, stream, base)
        if chunk is None:
            if not read or cursor >= self.end:
                return None
            with self._read:
                chunk = self._known_chunk(cursor, stream, base) or self._read_chunk(
                    cursor, stream, base, max(rows, CHUNK_ROWS)
                )
            if chunk is None:
                return None
        key = (chunk.after, filter)
        with self._lock:
            if (selected := self._selected.get(key)) is not None and selected.chunk is chunk:
                self._selected.move_to_end(key)
                return selected
        if not read:
            return None
        with self._read:  # so that readers with the same filter evaluate it once
            with self._lock:
                if (selected := self._selected.get(key)) is not None and selected.chunk is chunk:
                    return selected
            selected = SelectedEvents(chunk, stream, filter, base.name if self._is_derived else None)
            with self._lock:
                self._selected[key] = selected
                while len(self._selected) > MOST_PAGES:
                    self._selected.popitem(last=False)
        return selected

    def _known_chunk(self, cursor: EventCursor, stream: Stream, base: Stream) -> Chunk | None:
        with self._lock:
            if self._of is None or self._of[0] is not stream or self._of[1] is not base:
                for cache in (self._chunks, self._selected, self._pages):
                    cache.clear()
                self._of, self._derivation = (stream, base), None
                return None
            for chunk in reversed(self._chunks.values()):
                if chunk.covers(cursor):
                    return chunk
        return None

    def _read_chunk(self, cursor: EventCursor, stream: Stream, base: Stream, rows: int) -> Chunk | None:
        if self._is_derived:
            derivation = self._derivation = self._derivation or DerivedReader(stream, base, self._tables)
            chunk = derivation.read(self.table, cursor, rows)
        else:
            chunk = read_chunk(self.table, stream, cursor, rows)
        if chunk is not None:
            with self._lock:
                self._chunks[chunk.after] = chunk
                self._chunks.move_to_end(chunk.after)
                self._forget_old()
        return chunk

    def _forget_old(self) -> None:
        size = sum(chunk.events.nbytes for chunk in self._chunks.values())
        while len(self._chunks) > 1 and (size > MOST_BYTES or len(self._chunks) > MOST_CHUNKS):
            after, chunk = self._chunks.popitem(last=False)
            size -= chunk.events.nbytes
            for key in [key for key in self._selected if key[0] == after]:
                del self._selected[key]


def _encoder(stream: Stream, base: str | None) -> Callable[[pa.Table], list[bytes]]:
    converts = [(field.name, convert) for field in stream.fields if (convert := encoder(field.type)) is not None]
    names = [field.name for field in stream.fields]
    source = {} if base is None else {"stream": base}

    def encode(events: pa.Table) -> list[bytes]:
        columns = [COMMIT, POSITION, *([ROW] if ROW in events.column_names else [])]
        places = [events.column(name).to_pylist() for name in columns]
        arrived = events.column(ARRIVED).cast(pa.int64()).to_pylist()
        fields = events.select(names).to_pylist(maps_as_pydicts="lossy")
        lines = []
        for place, arrived_us, values in zip(zip(*places, strict=True), arrived, fields, strict=True):
            for name, convert in converts:
                if values[name] is not None:
                    values[name] = convert(values[name])
            text = f"{place[0]}-{place[1]}" if len(place) < 3 else f"{place[0]}-{place[1]}.{place[2]}"
            cursor = {"cursor": text, "commit": place[0], "position": place[1], **source}
            lines.append(orjson.dumps({**cursor, "arrived": iso_us(arrived_us), "event": values}))
        return lines

    return encode
