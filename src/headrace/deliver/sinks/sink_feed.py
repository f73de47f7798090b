"""What a sink sends next: the changes of a view, or the events of a stream, after a cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from headrace.define.model import Sink, Stream, View
from headrace.define.outgoing_rules import row_keys, row_types
from headrace.deliver.derived_events import DerivedReader
from headrace.deliver.event_chunks import CHUNK_ROWS, Chunk, Places, read_chunk
from headrace.deliver.event_page import START, EventCursor, UnionCursor
from headrace.deliver.filters import EventFilter
from headrace.deliver.sinks.sink_rows import EventRows
from headrace.deliver.sinks.sink_writer import SinkBatch, SinkChange
from headrace.deliver.table_changes import TableChanges
from headrace.deliver.view_reader import ViewFollower
from headrace.engine.python_evaluation import compile_expression
from headrace.errors import HeadraceError
from headrace.serve.change_batch import ChangeBatch, ChangeCursor, ViewChange
from headrace.serve.changes import Evaluation, changes_after
from headrace.serve.evaluate import find_serving
from headrace.store.store_contract import Store
from headrace.store.version import Version

if TYPE_CHECKING:
    from headrace.aggregate import Value
    from headrace.lake.delta_table import LakeTable


MOST_KEYS = 1_000_000


class SentKeys:
    """The keys of the rows that the destination has. While that is not known of all, any other may be there, too."""

    def __init__(self, keys: Sequence[str], *, complete: bool) -> None:
        self.names = tuple(keys)
        self._present: set[tuple[Any, ...]] = set()
        self._absent: set[tuple[Any, ...]] = set()  # of an incomplete one: known not to be there
        self.complete = complete
        self.overflown = False

    def may_have(self, row: Mapping[str, Value]) -> bool:
        """Whether the destination may have a row of this key."""
        key = self._key(row)
        return key in self._present if self.complete else key not in self._absent

    def note(self, row: Mapping[str, Value], is_present: bool) -> None:
        """The destination has this row from now on, or not."""
        if self.overflown:
            return
        key = self._key(row)
        if is_present:
            self._present.add(key)
            self._absent.discard(key)
        else:
            self._present.discard(key)
            if not self.complete:
                self._absent.add(key)
        if len(self._present) + len(self._absent) > MOST_KEYS:
            self._present, self._absent = set(), set()
            self.complete, self.overflown = False, True

    def clear(self) -> None:
        """The destination has nothing."""
        self._present, self._absent = set(), set()
        self.complete, self.overflown = True, False

    def _key(self, row: Mapping[str, Value]) -> tuple[Any, ...]:
        values = (row.get(name) for name in self.names)
        return tuple(repr(value) if isinstance(value, float) else value for value in values)  # NaN is equal to itself


MOST_COMPLETE = 1_000_000  # rows of a view in mode complete: they are sent as one batch


class TooManyRowsError(HeadraceError):
    """A view has more rows than mode complete can send."""

    code = "too_many_rows"


class Feed(Protocol):
    """The source of one sink."""

    def after(self, cursor: str | None) -> SinkBatch | None:
        """The next batch; its changes may be none and its cursor later all the same. None: there is nothing new."""

    def behind(self, cursor: str | None) -> int | None:
        """How many commits are not sent yet, if that is known."""

    def follow(self) -> None:
        """The sink begins: what it needs to go on from its place is kept from now on."""

    def passed(self, cursor: str | None) -> None:
        """What comes before this place need not be kept any more."""

    def unfollow(self) -> None:
        """The sink was dropped."""


Base = tuple["Stream", "LakeTable"]


class StreamFeed:
    """The events of a stream, from the lake; those of a derived one are made of the events of its base streams."""

    def __init__(
        self,
        sink: Sink,
        source: Callable[[], tuple[Stream, Sequence[Base]]],
        rows: int,
        tables: TableChanges | None = None,
    ) -> None:
        """`source` gives the stream, and its base streams with their lakes: itself, if it is not derived.

        `tables` are those that the events of a derived stream are joined to.
        """
        self._tables = tables
        self._sink = sink
        self._source = source
        self._rows = rows
        self._filter: tuple[Stream, EventFilter] | None = None
        self._chunks: dict[str, tuple[Stream, Stream, Chunk, Places]] = {}  # read last: a batch may be a part of one
        self._derivations: dict[str, tuple[Stream, Stream, DerivedReader]] = {}
        self._turn = 0  # of the base streams

    def after(self, cursor: str | None) -> SinkBatch | None:
        stream, bases = self._source()
        places = self._places(cursor, bases)
        self._turn += 1
        for at in range(len(bases)):
            base, table = bases[(self._turn + at) % len(bases)]
            batch = self._next(stream, base, table, places, bases)
            if batch is not None:
                return batch
        # Written down even if there is nothing: events from now on are those after this place.
        return None if cursor is not None else self._batch(stream, None, places, bases)

    def _next(
        self, stream: Stream, base: Stream, table: LakeTable, places: UnionCursor, bases: Sequence[Base]
    ) -> SinkBatch | None:
        """The next events of one of the base streams."""
        place = places.of(base.name)
        chunk_and_places = self._chunk_after(stream, base, table, place)
        if chunk_and_places is None:
            return None
        chunk, of_chunk = chunk_and_places
        first = of_chunk.count_until(place)
        end = min(len(of_chunk), first + self._rows)
        events = chunk.events.slice(first, end - first)
        until = chunk.until if end == len(of_chunk) else of_chunk[end - 1]
        if self._sink.where is not None:
            events = self._filter_of(stream).select(events)
        rows = EventRows(events, tuple(stream.sent().items()))
        return self._batch(stream, rows, places.at(base.name, until), bases)

    def _chunk_after(
        self, stream: Stream, base: Stream, table: LakeTable, place: EventCursor
    ) -> tuple[Chunk, Places] | None:
        known = self._chunks.get(base.name)
        if known is not None and known[0] is stream and known[1] is base and known[2].covers(place):
            return known[2:]
        rows = max(self._rows, CHUNK_ROWS)
        derivation = self._derivation(stream, base)
        chunk = derivation.read(table, place, rows) if derivation else read_chunk(table, stream, place, rows)
        if chunk is None:
            return None
        of_chunk = Places(chunk.events)
        self._chunks[base.name] = (stream, base, chunk, of_chunk)
        return chunk, of_chunk

    def _derivation(self, stream: Stream, base: Stream) -> DerivedReader | None:
        if stream.relation is None:
            return None
        known = self._derivations.get(base.name)
        if known is None or known[0] is not stream or known[1] is not base:
            known = self._derivations[base.name] = (stream, base, DerivedReader(stream, base, self._tables))
        return known[2]

    def behind(self, cursor: str | None) -> int | None:
        _, bases = self._source()
        places = self._places(cursor, bases) if cursor else None
        return sum(
            max(0, table.state.next_commit - (places.of(base.name).commit if places else 0)) for base, table in bases
        )

    def follow(self) -> None:
        """The lake keeps every event."""

    def passed(self, cursor: str | None) -> None:
        """The lake keeps every event."""

    def unfollow(self) -> None:
        """The lake keeps every event."""

    def _places(self, cursor: str | None, bases: Sequence[Base]) -> UnionCursor:
        """Where the sink is in the log of each base stream."""
        if cursor is None:
            latest = self._sink.get("scan.startup.mode") == "latest"
            return UnionCursor(
                tuple((base.name, EventCursor(table.state.next_commit) if latest else START) for base, table in bases)
            )
        if len(bases) == 1 and ":" not in cursor:
            return UnionCursor(((bases[0][0].name, EventCursor.from_text(cursor)),))
        places = UnionCursor.from_text(cursor)
        return UnionCursor(tuple((base.name, places.of(base.name)) for base, _ in bases))

    def _filter_of(self, stream: Stream) -> EventFilter:
        if self._filter is None or self._filter[0] is not stream:
            self._filter = (stream, EventFilter(stream, self._sink.where, ()))
        return self._filter[1]

    def _batch(self, stream: Stream, rows: EventRows | None, until: UnionCursor, bases: Sequence[Base]) -> SinkBatch:
        return SinkBatch(
            self._sink.name,
            tuple(stream.sent().items()),
            (),
            rows if rows is not None else (),
            until.to_text() if len(bases) > 1 else until.parts[0][1].to_text(),
            more=any(until.of(base.name) < EventCursor(table.state.next_commit) for base, table in bases),
            time_column=stream.time_column,
        )


class ViewFeed:
    """The changes of a view, from the store."""

    def __init__(self, sink: Sink, store: Store, rows: int) -> None:
        self._sink = sink
        self._store = store
        self._rows = rows
        self._sent: SentKeys | None = None  # of a sink that does not send all rows
        self._follower = ViewFollower(store, sink.source, f"sink:{sink.name}")
        self._finished: tuple[Version | None, str | None] | None = None  # of which nothing is left to send

    def after(self, cursor: str | None) -> SinkBatch | None:
        sink = self._sink
        serving = self._store.serving_now(sink.source)
        if serving is not None and self._finished == (serving, cursor):
            return None
        known = ChangeCursor.from_text(cursor) if cursor else None
        batch = changes_after(
            self._store,
            sink.source,
            known,
            limit=self._rows,
            on_close=sink.on_close,
            corrections=sink.corrections,
        )
        if known is not None and not len(batch) and batch.cursor == known:
            self._finished = (serving, cursor)
            self._remember(known)
            return None
        if sink.mode == "complete":
            return self._complete() if known is None or len(batch) or batch.restarted else self._only_cursor(batch)
        return self._selected(batch, first=known is None)

    def behind(self, cursor: str | None) -> int | None:
        version = self._store.serving_now(self._sink.source)
        if version is None or cursor is None:
            return None
        known = ChangeCursor.from_text(cursor)
        return None if known.version != version.number else max(0, version.total("applied_to") - known.tick)

    def follow(self) -> None:
        self._follower.follow()

    def passed(self, cursor: str | None) -> None:
        self._follower.passed(ChangeCursor.from_text(cursor) if cursor is not None else None)

    def unfollow(self) -> None:
        self._follower.unfollow()

    def _selected(self, batch: ChangeBatch, *, first: bool) -> SinkBatch:
        """The changes for which the condition holds; of the others, deletes of rows that were sent before."""
        with self._store.snapshot() as snapshot:
            view = find_serving(snapshot, self._sink.source).view
        if self._drops_rows(view) and (self._sent is None or self._sent.names != row_keys(view)):
            self._sent = SentKeys(row_keys(view), complete=first)
        passes, may_delete = self._condition(view), self._sink.mode == "update" and not batch.first
        changes: list[SinkChange] = []
        if batch.restarted and self._sent is not None:
            self._sent.clear()
        for change in batch.changes:
            is_there = change.op == "upsert" and passes(change)
            if is_there:
                changes.append(SinkChange("upsert", change.row, change.version, change.commit))
            elif may_delete and (self._sent is None or self._sent.may_have(change.row)):
                changes.append(SinkChange("delete", self._key(view, change), change.version, change.commit))
            if self._sent is not None:
                self._sent.note(change.row, is_there)
        return self._batch(batch, view, changes)

    def _remember(self, cursor: ChangeCursor) -> None:
        """After a restart, with nothing left to send: the rows that there are were sent."""
        if self._sent is not None and (self._sent.complete or self._sent.overflown):
            return
        with self._store.snapshot() as snapshot:
            version = find_serving(snapshot, self._sink.source)
            if not self._drops_rows(version.view):
                return
            reading = Evaluation(snapshot, version, self._rows, self._sink.on_close, self._sink.corrections)
            if reading.now != cursor:
                return  # it has moved on meanwhile
            passes, page = self._condition(version.view), reading.after(None)
            sent = SentKeys(row_keys(version.view), complete=True)
            while True:
                for change in page.changes:
                    sent.note(change.row, change.op == "upsert" and passes(change))
                if not page.more or sent.overflown:
                    break
                page = reading.after(page.cursor)
        self._sent = sent

    def _drops_rows(self, view: View) -> bool:
        return self._sink.where is not None or (view.shape is not None and view.shape.having is not None)

    def _condition(self, view: View) -> Callable[[ViewChange], bool]:
        if self._sink.where is None:
            return lambda change: True
        types = tuple(row_types(view).items())
        face = compile_expression(self._sink.where, types)
        names = [name for name, _ in types]
        return lambda change: face([change.row.get(name) for name in names]) is True

    @staticmethod
    def _key(view: View, change: ViewChange) -> dict[str, Value]:
        bounds = ("window_start", "window_end")
        return {name: change.row.get(name) for name in dict.fromkeys((*row_keys(view), *bounds)) if name in change.row}

    def _complete(self) -> SinkBatch:
        """All rows at one moment."""
        with self._store.snapshot() as snapshot:
            version = find_serving(snapshot, self._sink.source)
            reading = Evaluation(snapshot, version, self._rows, False, True)
            page = reading.after(None)
            pages = [page]
            while page.more:
                page = reading.after(page.cursor)
                pages.append(page)
                self._refuse_more(sum(len(each) for each in pages))
        passes = self._condition(version.view)
        rows = (change for each in pages for change in each.changes if change.op == "upsert" and passes(change))
        changes = [SinkChange("upsert", change.row, change.version, change.commit) for change in rows]
        return replace(self._batch(page, version.view, changes), snapshot=True, restarted=True, more=False)

    def _refuse_more(self, rows: int) -> None:
        if rows > MOST_COMPLETE:
            raise TooManyRowsError(
                f"sink '{self._sink.name}': mode 'complete' sends all rows at once",
                found=f"more than {MOST_COMPLETE:,} rows of view '{self._sink.source}'",
                fix="write FORMAT UPSERT",
            )

    def _only_cursor(self, batch: ChangeBatch) -> SinkBatch:
        with self._store.snapshot() as snapshot:
            view = find_serving(snapshot, self._sink.source).view
        return self._batch(batch, view, ())

    def _batch(self, batch: ChangeBatch, view: View, changes: Iterable[SinkChange]) -> SinkBatch:
        return SinkBatch(
            self._sink.name,
            batch.columns,
            row_keys(view),
            tuple(changes),
            batch.cursor.to_text(),
            snapshot=batch.snapshot,
            restarted=batch.restarted,
            more=batch.more,
            time_column="window_start" if view.window else None,
        )
