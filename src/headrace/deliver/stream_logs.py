"""The logs of streams of every kind: of one base stream, and of a derived stream that is made of several."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import orjson

from headrace.define.model import Stream
from headrace.deliver.event_log import EventLog
from headrace.deliver.event_page import LATEST, Columns, EventCursor, EventPage, EventQuestion, UnionCursor
from headrace.deliver.filters import EventFilter, make_filter
from headrace.deliver.notifier import Notifier
from headrace.deliver.table_changes import TableChanges
from headrace.lake.delta_table import LakeTable

ROUNDS = 3  # in which a page is filled: each takes from every log the same number of events at most


class UnionLog:
    """Reads the events of a derived stream that is made of several base streams, merged by their arrival.

    Its methods are those of an `EventLog`. The order within a base stream is that of its log. Which events of others
    are between them may differ from reader to reader, but not from a cursor to another one.
    """

    def __init__(self, logs: Mapping[str, EventLog], stream: Callable[[], Stream]) -> None:
        """`logs` are those of the parts, by base stream."""
        self.parts = logs
        self._stream = stream
        self.notifier = Notifier()
        for log in logs.values():
            log.notifier.forward_to(self.notifier)

    @property
    def stream(self) -> Stream:
        """Its definition now."""
        return self._stream()

    @property
    def tables(self) -> tuple[LakeTable, ...]:
        """The lakes that it reads."""
        return tuple(log.table for log in self.parts.values())

    @property
    def end(self) -> UnionCursor:
        """After the last event of each log."""
        return self._cursor(lambda log: log.end)

    @property
    def columns(self) -> Columns:
        """The fields of its events."""
        return tuple((field.name, field.type) for field in self.stream.fields)

    def _cursor(self, of: Callable[[EventLog], EventCursor]) -> UnionCursor:
        return UnionCursor(tuple((name, of(log)) for name, log in self.parts.items()))

    def filter(self, where: str | None, key: Mapping[str, Any] | None = None) -> EventFilter | None:
        """The filter of a reader."""
        return make_filter(self.stream, where, key)

    def parse(self, text: str) -> UnionCursor:
        """The cursor of a text; a base stream that it does not name is read from its start."""
        cursor = UnionCursor.from_text(text)
        return UnionCursor(tuple((name, cursor.of(name)) for name in self.parts))

    def start(self, text: str | datetime | None, default: str = LATEST) -> UnionCursor:
        """The cursor that `from` means."""
        if isinstance(text, str) and EventCursor.is_cursor(text.strip()):
            return self.check(self.parse(text.strip()))
        return self._cursor(lambda log: log.start(text, default))

    def check(self, cursor: UnionCursor) -> UnionCursor:
        """The cursor, if the logs have it."""
        return UnionCursor(tuple((name, log.check(cursor.of(name))) for name, log in self.parts.items()))

    def start_of_last(self, count: int) -> UnionCursor:
        """The cursor after which there are this many events, or all if there are fewer."""
        cursor = self._cursor(lambda log: log.start_of_last(count))
        lines = self.until(cursor, self.end, None)
        return self.parse(orjson.loads(lines[-count - 1])["cursor"]) if len(lines) > count else cursor

    def lag(self, cursor: UnionCursor) -> int:
        """How many events of the base streams are after a cursor."""
        return sum(log.lag(cursor.of(name)) for name, log in self.parts.items())

    def after(self, cursor: UnionCursor, filter: EventFilter | None, limit: int) -> EventPage:
        """The next events after a cursor that a filter selects. The page may be empty and still have a later cursor."""
        lines: dict[str, list[bytes]] = {name: [] for name in self.parts}
        until = cursor
        for _ in range(ROUNDS):
            waiting = [name for name, log in self.parts.items() if until.of(name) < log.end]
            room = limit - sum(map(len, lines.values()))
            for at, name in enumerate(waiting):
                share = room // (len(waiting) - at)
                if share:
                    page = self.parts[name].after(until.of(name), filter, share)
                    lines[name] += page.lines
                    until, room = until.at(name, _event_cursor(page)), room - len(page.lines)
        return EventPage(self.stream.name, _merge(cursor, lines), until, until < self.end, self.columns)

    def recent(self, cursor: UnionCursor, filter: EventFilter | None, limit: int) -> EventPage | None:
        """None: events are merged for each reader."""
        return None

    def until(self, cursor: UnionCursor, last: UnionCursor, filter: EventFilter | None) -> tuple[bytes, ...]:
        """The events after a cursor up to another one."""
        return _merge(
            cursor, {name: log.until(cursor.of(name), last.of(name), filter) for name, log in self.parts.items()}
        )


Log = EventLog | UnionLog


def _event_cursor(page: EventPage) -> EventCursor:
    assert isinstance(page.cursor, EventCursor), "a page of one log"
    return page.cursor


def _merge(cursor: UnionCursor, lines: Mapping[str, Iterable[bytes]]) -> tuple[bytes, ...]:
    """The lines of all logs by arrival, each with the cursor behind it."""
    contents = [[orjson.loads(line) for line in part] for part in lines.values()]
    merged = []
    for content in heapq.merge(*contents, key=lambda each: each["arrived"]):
        cursor = cursor.at(content["stream"], EventCursor.from_text(content["cursor"]))
        merged.append(orjson.dumps({**content, "cursor": cursor.to_text()}))
    return tuple(merged)


def open_derived(
    stream: Callable[[], Stream],
    bases: Mapping[str, Callable[[], Stream]],
    logs: Mapping[str, EventLog],
    tables: TableChanges | None = None,
) -> Log:
    """The log of a derived stream, over those of its base streams, joined to `tables`."""
    parts = {name: EventLog(logs[name].table, base, stream, logs[name], tables) for name, base in bases.items()}
    return UnionLog(parts, stream) if len(parts) > 1 else next(iter(parts.values()))


def first_cursor(log: Log, question: EventQuestion) -> Any:
    """Where a question begins: a cursor of the log."""
    any_log: Any = log  # the cursors of a log fit this log only, which types cannot tell
    if question.cursor is not None:
        return any_log.check(any_log.parse(question.cursor))
    return log.start(question.start) if question.last is None else log.start_of_last(question.last)


def read_events(log: Log, question: EventQuestion, wait_s: float = 0.0) -> EventPage:
    """A page of events. Without any it waits for some; it may end with none, and a later cursor."""
    any_log: Any = log
    filter_, cursor = log.filter(question.where, question.key), first_cursor(log, question)
    deadline = time.monotonic() + wait_s
    while True:
        known = log.notifier.count
        page: EventPage = any_log.recent(cursor, filter_, question.limit) or any_log.after(
            cursor, filter_, question.limit
        )
        cursor, left_s = page.cursor, deadline - time.monotonic()
        if page.lines or left_s <= 0:
            return page
        if not page.more:
            log.notifier.wait(known, left_s)
