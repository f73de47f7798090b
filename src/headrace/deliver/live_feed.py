"""The changes of a view for its live readers: evaluated once per step, however many readers there are."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from functools import cached_property
from typing import Any

import orjson
import structlog

from headrace.deliver.change_question import ChangeQuestion
from headrace.deliver.filters import ChangeFilter
from headrace.deliver.notifier import Notifier
from headrace.deliver.view_reader import ViewReader
from headrace.errors import HeadraceError, NotFoundError
from headrace.serve.change_batch import ChangeBatch, ChangeCursor, ViewChange, row_of
from headrace.serve.json_values import json_rows
from headrace.store.store_contract import Store

FOLLOWER = "live"  # of all live readers of a view
LINGER_S = 600.0  # how long a view is followed after its last reader has left: readers come back
LOOK_S = 1.0  # how often a feed looks for a change, whatever it is notified of
LIMIT = 5_000  # rows of a batch, about
MOST_BATCHES, MOST_ROWS = 512, 100_000  # that a feed keeps

log = structlog.get_logger("headrace.deliver")


class FedBatch:
    """A batch of changes, encoded once for all readers without a filter."""

    def __init__(self, batch: ChangeBatch) -> None:
        self.batch = batch
        self.cursor = batch.cursor.to_text()

    @cached_property
    def messages(self) -> bytes:
        """As server-sent events."""
        return encode_messages(self.batch, self.batch.upserts, self.batch.deletes, self.cursor)


def encode_messages(batch: ChangeBatch, upserts: Any, deletes: Any, cursor: str) -> bytes:
    """Changes as server-sent events, the last of them with the cursor as its id; nothing if there are none."""
    end = b',"version":%d,"commit":%d%s}\n\n' % (
        batch.version,
        batch.commit,
        b',"snapshot":true' if batch.snapshot else b"",
    )
    messages = [b'data: {"op":"restart"' + end] if batch.restarted else []
    for op, rows in ((b"delete", deletes), (b"upsert", upserts)):
        start = b'data: {"op":"%s","row":' % op
        messages += [start + orjson.dumps(row) + end for row in json_rows(batch.columns, rows)]
    if messages:
        messages[-1] = b"id: %s\n" % cursor.encode() + messages[-1]
    return b"".join(messages)


def encode_columns(batch: ChangeBatch) -> bytes:
    """What the columns of the rows are, as a server-sent event."""
    columns = [{"name": name, "type": str(of)} for name, of in batch.columns]
    content = {"view": batch.view, "version": batch.version, "keys": batch.keys, "columns": columns}
    return b"event: columns\ndata: " + orjson.dumps(content) + b"\n\n"


class LiveFeed:
    """The feed of one view. Its methods may be called by any thread."""

    def __init__(self, store: Store, view: str, *, settled_only: bool = False) -> None:
        self.view = view
        self._store = store
        self._reader = ViewReader(store, view, limit=LIMIT, mode="settled" if settled_only else "changed")
        self._evaluating = threading.Lock()
        self._counting = threading.Lock()  # is never held for long: the server's loop may wait for it
        self._batches: OrderedDict[str, FedBatch] = OrderedDict()
        self._rows = 0
        self.head: str | None = None  # the cursor after the last batch; None: nobody reads
        self.error: HeadraceError | None = None  # why there can be no more changes
        self.readers = 0
        self.left_at = time.monotonic()
        self.changed = Notifier()
        self.now, self.empty = self._reader.now, self._reader.empty

    def find(self, cursor: str) -> FedBatch | None:
        """The batch after a cursor, if the feed has it."""
        return self._batches.get(cursor)

    def read(self, cursor: str | None) -> FedBatch | None:
        """The batch after a cursor, from the feed or from the store; without one, the first page of all rows.

        None if nothing has changed since.
        """
        with self._evaluating:
            return self._read(cursor)

    def _read(self, cursor: str | None) -> FedBatch | None:
        key = cursor if cursor is not None else self._first_key()
        known = self._batches.get(key)
        if known is not None:
            return known
        changes = self._reader.next(None if cursor is None else ChangeCursor.from_text(cursor))
        if changes is None:
            return None
        batch = FedBatch(changes)
        self._keep(key, batch)
        return batch

    def _first_key(self) -> str:
        """Readers that begin at the same time share the first page."""
        version = self._store.serving_now(self.view)
        return f"first {version.number} {version.total('applied_to')}" if version else "first"

    def _keep(self, key: str, batch: FedBatch) -> None:
        if key == "first":
            return
        self._batches[key] = batch
        self._rows += len(batch.batch)
        while len(self._batches) > MOST_BATCHES or (self._rows > MOST_ROWS and len(self._batches) > 1):
            _, oldest = self._batches.popitem(last=False)
            self._rows -= len(oldest.batch)

    def advance(self) -> None:
        """Evaluate what has changed, and wake the readers."""
        while self.head is not None and (batch := self.read(self.head)) is not None:
            self.head = batch.cursor
            self.changed.notify()
            if not batch.batch.more:
                break

    def enter(self) -> None:
        """Somebody reads; the first one starts the feed where the view is now. It may take a moment."""
        now = self.now().to_text()
        with self._counting:
            if self.readers == 0:
                self.head, self.error = now, None
            self.readers += 1

    def leave(self) -> None:
        """Somebody no longer reads."""
        with self._counting:
            self.readers -= 1
            if self.readers == 0:
                self.head, self.left_at = None, time.monotonic()
                self._batches.clear()
                self._rows = 0

    def fail(self, error: HeadraceError) -> None:
        """There can be no more changes: the readers are told."""
        self.error = error
        self.changed.notify()


class LiveFeeds:
    """The feeds of all views that have live readers, a thread for each."""

    def __init__(self, store: Store, stopped: threading.Event, linger_s: float = LINGER_S) -> None:
        self._store = store
        self._stopped = stopped
        self._linger_s = linger_s
        self._lock = threading.Lock()
        self._feeds: dict[tuple[str, bool], LiveFeed] = {}
        self._applied = Notifier()
        self._threads: list[threading.Thread] = []
        with store.snapshot() as snapshot:
            left = [each.view for each in snapshot.followers() if each.name == FOLLOWER]
        for view in left:  # readers of an earlier process come back
            self._start(view)

    def feed(self, view: str, *, settled_only: bool = False) -> LiveFeed:
        """The feed of a view, which is followed from now on; raises NotFoundError if there is no such view."""
        ViewReader(self._store, view, limit=LIMIT).now()
        return self._start(view, settled_only=settled_only)

    def _start(self, view: str, *, settled_only: bool = False) -> LiveFeed:
        with self._lock:
            feed = self._feeds.get((view, settled_only))
            if feed is None:
                self._store.follow(view, FOLLOWER)
                feed = self._feeds[view, settled_only] = LiveFeed(self._store, view, settled_only=settled_only)
                run: Callable[[], None] = lambda: self._run(feed, (view, settled_only))  # noqa: E731
                thread = threading.Thread(target=run, name=f"feed-{view}", daemon=True)
                self._threads = [each for each in self._threads if each.is_alive()] + [thread]
                thread.start()
            feed.left_at = time.monotonic()
            return feed

    def notify(self) -> None:
        """A version moved, or serves now, or the server stops."""
        self._applied.notify()

    @property
    def threads(self) -> list[threading.Thread]:
        """To be joined when the server stops."""
        return list(self._threads)

    @property
    def readers(self) -> dict[str, int]:
        """How many live readers each view has."""
        counts: dict[str, int] = {}
        for (view, _), feed in list(self._feeds.items()):
            counts[view] = counts.get(view, 0) + feed.readers
        return counts

    def _run(self, feed: LiveFeed, key: tuple[str, bool]) -> None:
        while not self._stopped.is_set():
            known = self._applied.count
            try:
                feed.advance()
            except NotFoundError as error:
                feed.fail(error)
            except HeadraceError as error:  # it may heal: the view is being built, the disk is full
                log.warning("changes cannot be read", view=feed.view, error=str(error))
                self._stopped.wait(LOOK_S)
            except Exception:
                if not self._stopped.is_set():
                    log.exception("changes cannot be read", view=feed.view)
                self._stopped.wait(LOOK_S)
            if self._ended(feed, key):
                return
            self._applied.wait(known, LOOK_S)
        feed.changed.notify()

    def _ended(self, feed: LiveFeed, key: tuple[str, bool]) -> bool:
        """Whether nobody has read for a while; then the view is no longer followed."""
        with self._lock:
            if feed.readers or (time.monotonic() - feed.left_at < self._linger_s and feed.error is None):
                return False
            del self._feeds[key]
            if (feed.view, not key[1]) not in self._feeds:
                try:
                    self._store.unfollow(feed.view, FOLLOWER)
                except HeadraceError as error:
                    log.warning("a view is still followed", view=feed.view, error=str(error))
            return True


WAIT_S = 1.0  # how long at most before it looks whether it has to stop


class ChangeReader:
    """Where one reader is in a feed, and what it wants of it."""

    def __init__(self, feed: LiveFeed, question: ChangeQuestion) -> None:
        self.feed = feed
        self.filter: ChangeFilter | None = None
        self.cursor = question.cursor if question.cursor or question.snapshot else feed.now().to_text()
        if question.key or question.where:
            self.filter = ChangeFilter(question.key, question.where, fresh=question.cursor is None)

    def start(self) -> FedBatch | None:
        """The first batch. Raises QuestionError if the filter does not fit the view. It may take long."""
        first = self.feed.read(self.cursor)
        if self.filter and first:
            self.filter.prepare(first.batch)
        elif self.filter:  # nothing has changed: the filter is checked with a batch that has no rows
            self.filter.prepare(self.feed.empty())
        return first

    @property
    def found(self) -> FedBatch | None:
        """The next batch, if the feed has it."""
        return None if self.cursor is None else self.feed.find(self.cursor)

    @property
    def is_behind(self) -> bool:
        """Whether the next batch is not to be expected from the feed."""
        return self.cursor != self.feed.head


def subscribe(
    feeds: LiveFeeds, question: ChangeQuestion, stopped: threading.Event
) -> Generator[ViewChange, None, None]:
    """The changes of a view as they come, until `stopped`. A change of the op restart voids those before it."""
    feed = feeds.feed(question.view, settled_only=question.settled_only)
    reader = ChangeReader(feed, question)
    feed.enter()
    try:
        batch = reader.start()
        while not stopped.is_set():
            known = feed.changed.count
            batch = batch or reader.found
            if batch is None and reader.is_behind:
                batch = feed.read(reader.cursor)
            if batch is not None:
                yield from _changes(reader, batch)
                reader.cursor, batch = batch.cursor, None
            elif feed.error is not None:
                raise feed.error
            else:
                feed.changed.wait(known, WAIT_S)
    finally:
        feed.leave()


def _changes(reader: ChangeReader, fed: FedBatch) -> Iterator[ViewChange]:
    batch = fed.batch
    rows = reader.filter.select(batch) if reader.filter else (batch.upserts, batch.deletes)
    changes = [ViewChange("restart", {}, batch.version, batch.commit)] if batch.restarted else []
    changes += [ViewChange("delete", row_of(batch.columns, row), batch.version, batch.commit) for row in rows[1]]
    changes += [ViewChange("upsert", row_of(batch.columns, row), batch.version, batch.commit) for row in rows[0]]
    for at, change in enumerate(changes, 1):
        # A reader that ends within a batch begins with it again.
        yield change.with_cursor(fed.cursor) if at == len(changes) else change
