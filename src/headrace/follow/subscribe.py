"""A reader of the changes of a view in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator

from headrace.follow.change_question import ChangeQuestion
from headrace.follow.feed import FedBatch, ViewFeed, ViewFeeds
from headrace.follow.view_filter import ChangeFilter
from headrace.serve.change import Change
from headrace.serve.changes import row_of

WAIT_S = 1.0  # how long at most before it looks whether it has to stop


class ChangeReader:
    """Where one reader is in a feed, and what it wants of it."""

    def __init__(self, feed: ViewFeed, question: ChangeQuestion) -> None:
        self.feed = feed
        self.filter: ChangeFilter | None = None
        self.cursor = question.cursor if question.cursor or question.snapshot else feed.now()
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


def subscribe(feeds: ViewFeeds, question: ChangeQuestion, stopped: threading.Event) -> Generator[Change, None, None]:
    """The changes of a view as they come, until `stopped`. A change of the op restart voids those before it."""
    feed = feeds.feed(question.view, settled_only=question.settled_only)
    reader = ChangeReader(feed, question)
    feed.enter()
    try:
        batch = reader.start()
        while not stopped.is_set():
            known = feed.changed.rings
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


def _changes(reader: ChangeReader, fed: FedBatch) -> Iterator[Change]:
    batch = fed.batch
    rows = reader.filter.select(batch) if reader.filter else (batch.upserts, batch.deletes)
    changes = [Change("restart", {}, batch.version, batch.commit)] if batch.restarted else []
    changes += [Change("delete", row_of(batch.columns, row), batch.version, batch.commit) for row in rows[1]]
    changes += [Change("upsert", row_of(batch.columns, row), batch.version, batch.commit) for row in rows[0]]
    for at, change in enumerate(changes, 1):
        # A reader that ends within a batch begins with it again.
        yield change.with_cursor(fed.cursor) if at == len(changes) else change
