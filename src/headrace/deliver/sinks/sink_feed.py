"""What a sink sends next: the changes of a view, or the events of a stream, after a cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from headrace.define.model import Sink, Stream
from headrace.deliver.event_page import START, EventCursor, UnionCursor
from headrace.deliver.filters import ChangeFilter, EventFilter
from headrace.deliver.sinks.sink_rows import EventRows
from headrace.deliver.sinks.sink_writer import SinkBatch, SinkChange
from headrace.deliver.stream_logs import Log
from headrace.deliver.view_reader import ViewReader
from headrace.errors import HeadraceError
from headrace.serve.change_batch import ChangeBatch, ChangeCursor, Row, row_of
from headrace.serve.changes import ChangeMode
from headrace.serve.presentation import END
from headrace.serve.presentation import START as WINDOW_START
from headrace.store.store_contract import Store

MOST_COMPLETE = 1_000_000  # rows of a view in mode complete: they are sent as one batch
MOST_KNOWN = 1_000_000  # rows of which it is known whether the destination has them


class TooManyRowsError(HeadraceError):
    """A view has more rows than mode complete can send."""

    code = "too_many_rows"


class Feed(Protocol):
    """The source of one sink."""

    def after(self, cursor: str | None) -> SinkBatch | None:
        """The next batch; its changes may be none and its cursor later all the same. None: there is nothing new."""

    def lag(self, cursor: str | None) -> int | None:
        """The number of commits that are not sent yet, if that is known."""

    def follow(self) -> None:
        """The sink begins: what it needs to continue from its place is kept from now on."""

    def passed(self, cursor: str | None) -> None:
        """What comes before this place need not be kept any more."""

    def unfollow(self) -> None:
        """The sink was dropped."""


class StreamFeed:
    """The events of a stream, from its log."""

    def __init__(self, sink: Sink, log_of: Callable[[], Log], rows: int) -> None:
        """`log_of` returns the current log of the stream: another one after it was created again."""
        self._sink = sink
        self._log_of = log_of
        self._rows = rows
        self._filter: tuple[Stream, EventFilter | None] | None = None
        self._turn = 0  # of the base streams

    def after(self, cursor: str | None) -> SinkBatch | None:
        log = self._log_of()
        stream, places = log.stream, self._places(cursor, log)
        bases = list(log.parts.items())
        self._turn += 1
        for at in range(len(bases)):
            base, part = bases[(self._turn + at) % len(bases)]
            rows = part.rows_after(places.of(base), self._filter_of(stream), self._rows)
            if rows is not None:
                events, until = rows
                return self._batch(log, stream, EventRows(events, tuple(stream.sent().items())), places.at(base, until))
        # Written down even if there is nothing: events from now on are those after this place.
        return None if cursor is not None else self._batch(log, stream, (), places)

    def lag(self, cursor: str | None) -> int | None:
        log = self._log_of()
        places = self._places(cursor, log) if cursor else None
        return sum(
            max(0, part.end.commit - (places.of(base).commit if places else 0)) for base, part in log.parts.items()
        )

    def follow(self) -> None:
        """The lake keeps every event."""

    def passed(self, cursor: str | None) -> None:
        """The lake keeps every event."""

    def unfollow(self) -> None:
        """The lake keeps every event."""

    def _places(self, cursor: str | None, log: Log) -> UnionCursor:
        """Where the sink is in the log of each base stream."""
        if cursor is None:
            latest = self._sink.get("scan.startup.mode") == "latest"
            return UnionCursor(tuple((base, part.end if latest else START) for base, part in log.parts.items()))
        if len(log.parts) == 1 and ":" not in cursor:
            return UnionCursor(((next(iter(log.parts)), EventCursor.from_text(cursor)),))
        places = UnionCursor.from_text(cursor)
        return UnionCursor(tuple((base, places.of(base)) for base in log.parts))

    def _filter_of(self, stream: Stream) -> EventFilter | None:
        if self._filter is None or self._filter[0] is not stream:
            where = self._sink.where
            self._filter = (stream, None if where is None else EventFilter(stream, where, ()))
        return self._filter[1]

    def _batch(self, log: Log, stream: Stream, rows: EventRows | tuple[()], until: UnionCursor) -> SinkBatch:
        return SinkBatch(
            self._sink.name,
            tuple(stream.sent().items()),
            (),
            rows,
            until.to_text() if len(log.parts) > 1 else until.parts[0][1].to_text(),
            more=any(until.of(base) < part.end for base, part in log.parts.items()),
            time_column=stream.time_column,
        )


class ViewFeed:
    """The changes of a view, from the store."""

    def __init__(self, sink: Sink, store: Store, rows: int) -> None:
        self._sink = sink
        settled: ChangeMode = "settled" if sink.corrections else "settled once"
        mode: ChangeMode = settled if sink.on_close else "changed"
        self._reader = ViewReader(store, sink.source, limit=rows, mode=mode, follower=f"sink:{sink.name}")
        self._all_rows = ViewReader(store, sink.source, limit=rows)
        self._filter: ChangeFilter | None = None
        self._looked_at: ChangeCursor | None = None  # with nothing left to send

    def after(self, cursor: str | None) -> SinkBatch | None:
        known = ChangeCursor.from_text(cursor) if cursor else None
        batch = self._reader.next(known)
        if batch is None:
            self._remember(known)
            return None
        if self._sink.mode != "complete":
            return self._selected(batch, fresh=known is None)
        return self._complete() if known is None or len(batch) or batch.restarted else self._batch(batch, ())

    def lag(self, cursor: str | None) -> int | None:
        return self._reader.lag(ChangeCursor.from_text(cursor) if cursor else None)

    def follow(self) -> None:
        self._reader.follow()

    def passed(self, cursor: str | None) -> None:
        self._reader.passed(ChangeCursor.from_text(cursor) if cursor is not None else None)

    def unfollow(self) -> None:
        self._reader.unfollow()

    def _selected(self, batch: ChangeBatch, *, fresh: bool) -> SinkBatch:
        """The changes for which the condition holds; of the others, deletes of rows that were sent before."""
        self._filter = self._filter or self._new_filter(fresh=fresh)
        upserts, deletes = self._filter.select(batch)
        changes: list[SinkChange] = []
        if self._sink.mode == "update":
            known_by = {*batch.keys, WINDOW_START, END}
            for row in deletes if not batch.first else ():
                key = {name: value for name, value in row_of(batch.columns, row).items() if name in known_by}
                changes.append(SinkChange("delete", key, batch.version, batch.commit))
        return self._batch(batch, (*changes, *_upserts(batch, upserts)))

    def _new_filter(self, *, fresh: bool) -> ChangeFilter:
        return ChangeFilter((), self._sink.where, fresh=fresh, most=MOST_KNOWN, remembers_having=True)

    def _remember(self, cursor: ChangeCursor | None) -> None:
        """After a restart, with nothing left to send: the rows that there are were sent."""
        self._filter = self._filter or self._new_filter(fresh=False)
        if self._looked_at == cursor or self._filter.is_sure:
            return
        with self._reader.open() as changes:
            if changes.now == cursor:  # else it has moved on meanwhile
                self._looked_at = cursor
                if self._filter.remembers(changes.empty()):
                    self._filter.learn(changes.pages())

    def _complete(self) -> SinkBatch:
        """All rows at one moment."""
        selects, changes, count = self._new_filter(fresh=True), list[SinkChange](), 0
        with self._all_rows.open() as evaluation:
            for page in evaluation.pages():
                count += len(page)
                if count > MOST_COMPLETE:
                    self._refuse_more()
                changes += _upserts(page, selects.matching(page))
        return replace(self._batch(page, changes), snapshot=True, restarted=True, more=False)

    def _refuse_more(self) -> None:
        raise TooManyRowsError(
            f"sink '{self._sink.name}': mode 'complete' sends all rows at once",
            found=f"more than {MOST_COMPLETE:,} rows of view '{self._sink.source}'",
            fix="write FORMAT UPSERT",
        )

    def _batch(self, batch: ChangeBatch, changes: Iterable[SinkChange]) -> SinkBatch:
        return SinkBatch(
            self._sink.name,
            batch.columns,
            batch.keys,
            tuple(changes),
            batch.cursor.to_text(),
            snapshot=batch.snapshot,
            restarted=batch.restarted,
            more=batch.more,
            time_column=WINDOW_START if WINDOW_START in batch.keys else None,
        )


def _upserts(batch: ChangeBatch, rows: Iterable[Row]) -> Iterator[SinkChange]:
    return (SinkChange("upsert", row_of(batch.columns, row), batch.version, batch.commit) for row in rows)
