"""What a subscription reads: the events of a stream, or the changes of the rows of a view."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from headrace.deliver.change_question import ChangeQuestion
from headrace.deliver.event_page import EARLIEST, LATEST, columns_json
from headrace.deliver.filters import ChangeFilter
from headrace.deliver.notifier import Notifier
from headrace.deliver.stream_logs import Log
from headrace.deliver.subscription_state import SubscriptionBatch
from headrace.deliver.view_reader import ViewReader
from headrace.serve.change_batch import ChangeBatch, ChangeCursor, Row
from headrace.serve.json_values import json_rows
from headrace.store.store_contract import Store

ROWS = 1_000  # of a page, if nobody says how many


@dataclass(frozen=True)
class SourcePage:
    """What follows a cursor: events as JSON, and the cursor behind them."""

    lines: tuple[bytes, ...]
    cursor: str
    columns: bytes  # as JSON


class SubscriptionSource(Protocol):
    """A log whose parts subscriptions deliver. Safe for any thread."""

    repeats: bool  # whether a part of it can be read again; otherwise batches keep their content
    notifier: Notifier  # notified when there is something new

    def start(self, place: str | None) -> str:
        """The cursor of a new subscription."""

    def next(self, cursor: str, limit: int) -> SourcePage:
        """What follows a cursor, at most so many."""

    def again(self, batch: SubscriptionBatch) -> SourcePage:
        """The events of a batch that was delivered before."""

    def ids(self, lines: tuple[bytes, ...]) -> list[str]:
        """The name of each event within its batch, for acknowledgements."""

    def lag(self, cursor: str) -> int | None:
        """How much follows a cursor; None if that is not known."""

    def drop(self) -> None:
        """Its subscription is gone."""


class StreamSource:
    """The events of a stream that a condition selects."""

    repeats = True

    def __init__(self, log: Log, where: str | None, key: Mapping[str, Any]) -> None:
        self.notifier = log.notifier
        self._log: Any = log  # its cursors fit this log only, which types cannot tell
        self._where = where
        self._key = key
        log.filter(where, key)  # a mistake in it is an error now

    def start(self, place: str | None) -> str:
        """The cursor of a new subscription: by default the end of the log."""
        return str(self._log.start(place, LATEST).to_text())

    def next(self, cursor: str, limit: int) -> SourcePage:
        """The next events that are selected."""
        log = self._log
        page = log.after(log.check(log.parse(cursor)), log.filter(self._where, self._key), limit)
        return SourcePage(page.lines, page.cursor.to_text(), columns_json(page.columns))

    def again(self, batch: SubscriptionBatch) -> SourcePage:
        """The same events: the order of the log never changes."""
        log = self._log
        after, until = (log.parse(text) for text in (batch.after, batch.until))
        lines = log.until(log.check(after), until, log.filter(self._where, self._key))
        return SourcePage(lines, batch.until, columns_json(log.columns))

    def ids(self, lines: tuple[bytes, ...]) -> list[str]:
        """Their cursors."""
        return [orjson.loads(line)["cursor"] for line in lines]

    def lag(self, cursor: str) -> int | None:
        """The events after a cursor, before the condition."""
        return int(self._log.lag(self._log.parse(cursor)))

    def drop(self) -> None:
        """Nothing to do: the log is there for others."""


class ViewSource:
    """The changes of a view that a condition selects. A row is given as it is when it is read, so batches keep it."""

    repeats = False

    def __init__(
        self, store: Store, notifier: Notifier, subscription: str, view: str, where: str | None, key: Mapping[str, Any]
    ) -> None:
        question = ChangeQuestion.of(view, key, where)
        self.notifier = notifier
        self._reader = ViewReader(store, view, limit=ROWS, follower=f"subscription:{subscription}")
        self._lock = threading.Lock()
        # Which rows the members have is not known: whatever no longer passes is a delete.
        self._filter = ChangeFilter(question.key, question.where, fresh=False)
        empty = self._reader.empty()
        self._filter.prepare(empty)  # a mistake in it is an error now
        self._columns = columns_json(empty.columns)
        self._reader.follow()

    def start(self, place: str | None) -> str:
        """The cursor of a new subscription: by default before all rows, as the empty text."""
        if place in (None, "", EARLIEST):
            return ""
        return (self._reader.now() if place == LATEST else ChangeCursor.from_text(str(place))).to_text()

    def next(self, cursor: str, limit: int) -> SourcePage:
        """The next changes that are selected; there may be more than asked for."""
        after = _read_cursor(cursor)
        with self._lock:
            batch = self._reader.after(after, limit)
            lines = tuple(_lines(batch, *self._filter.select(batch)))
            self._columns = columns_json(batch.columns)
            self._reader.passed(after)
        return SourcePage(lines, batch.cursor.to_text(), self._columns)

    def again(self, batch: SubscriptionBatch) -> SourcePage:
        """The changes as they were delivered before."""
        lines = tuple(line.encode() for line in batch.content or ())
        return SourcePage(lines, batch.until, self._columns)

    def ids(self, lines: tuple[bytes, ...]) -> list[str]:
        """Their numbers within the batch."""
        return [orjson.loads(line)["cursor"] for line in lines]

    def lag(self, cursor: str) -> int | None:
        """The commits whose changes were not delivered; None before all rows were."""
        return self._reader.lag(_read_cursor(cursor))

    def drop(self) -> None:
        """The subscription is gone."""
        self._reader.unfollow()


def _read_cursor(text: str) -> ChangeCursor | None:
    return ChangeCursor.from_text(text) if text else None


def _lines(batch: ChangeBatch, upserts: Iterable[Row], deletes: Iterable[Row]) -> list[bytes]:
    """The changes as JSON, numbered."""
    changes: list[dict[str, Any]] = [{"op": "restart"}] if batch.restarted else []
    changes += [{"op": "delete", "row": row} for row in json_rows(batch.columns, deletes)]
    changes += [{"op": "upsert", "row": row} for row in json_rows(batch.columns, upserts)]
    end = {"version": batch.version, "commit": batch.commit}
    return [orjson.dumps({"cursor": f"{number}", **change, **end}) for number, change in enumerate(changes)]
