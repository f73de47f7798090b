"""Reads the changes of a view after a cursor, which the caller keeps: for sinks, live readers, subscriptions, alerts.

A reader with a name is known to the store as a follower: the store logs what changes in the view from where the reader
is, also while no server runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import QuestionError
from headrace.serve.change_batch import ChangeBatch, ChangeCursor
from headrace.serve.changes import ChangeMode, Evaluation, cursor_of
from headrace.serve.evaluate import find_serving
from headrace.store.store_contract import Store
from headrace.store.version import Version

ADVANCE_EVERY_S = 5.0  # how often the store is told a place: it may then forget what is before, in a transaction


class ViewReader:
    """One reader of one view. It keeps no cursor, so any number of cursors can be read with it, one at a time."""

    def __init__(
        self, store: Store, view: str, *, limit: int, mode: ChangeMode = "changed", follower: str | None = None
    ) -> None:
        """`limit`: about how many rows a batch has. `follower`: its name in the store."""
        self.view = view
        self._store = store
        self._limit = limit
        self._mode = mode
        self._follower = follower
        self._finished: tuple[Version | None, ChangeCursor] | None = None  # after which nothing follows
        self._advanced_at: float | None = None
        self._place: tuple[int, int] | None = None  # what the store was told last

    # Reading

    @contextmanager
    def open(self, limit: int | None = None) -> Iterator[Evaluation]:
        """The changes of the serving version, in one snapshot of the store."""
        with self._store.snapshot() as snapshot:
            version = find_serving(snapshot, self.view)
            if self._mode in ("settled", "settled once"):
                _check_settles(version)
            yield Evaluation(snapshot, version, limit or self._limit, self._mode)

    def after(self, cursor: ChangeCursor | None, limit: int | None = None) -> ChangeBatch:
        """The changes after a cursor; without one, all rows, page by page."""
        with self.open(limit) as changes:
            return changes.after(cursor)

    def next(self, cursor: ChangeCursor | None) -> ChangeBatch | None:
        """The changes after a cursor; None if there are none. A view that has not moved is not evaluated again."""
        serving = self._store.serving_now(self.view)
        if serving is not None and self._finished == (serving, cursor):
            return None
        batch = self.after(cursor)
        if cursor is not None and not len(batch) and batch.cursor == cursor:
            self._finished = (serving, cursor)
            return None
        return batch

    def now(self) -> ChangeCursor:
        """The cursor after all that there is: for changes from now on."""
        with self._store.snapshot() as snapshot:
            return cursor_of(find_serving(snapshot, self.view))

    def empty(self) -> ChangeBatch:
        """A batch without rows: it has the columns."""
        with self._store.snapshot() as snapshot:
            return Evaluation(snapshot, find_serving(snapshot, self.view), self._limit).empty()

    def serving(self) -> Version | None:
        """The version that answers for the view; None while it is being built."""
        return self._store.serving_now(self.view) or self._store.read(lambda snapshot: snapshot.serving(self.view))

    def lag(self, cursor: ChangeCursor | None) -> int | None:
        """The number of commits after a cursor; None if the view starts over for this reader."""
        version = self.serving()
        if version is None or cursor is None or not cursor.is_of(version):
            return None
        return max(0, version.total("applied_to") - cursor.tick)

    # What the store logs for it

    def follow(self) -> None:
        """Begin, or continue after a restart: changes are logged from now on."""
        assert self._follower is not None, "a reader that the store knows has a name"
        self._store.follow(self.view, self._follower)

    def passed(self, cursor: ChangeCursor | None) -> None:
        """All changes before a cursor are done with. The store is told every few seconds, and only of a new place."""
        assert self._follower is not None, "a reader that the store knows has a name"
        now = time.monotonic()
        if cursor is None or (self._advanced_at is not None and now - self._advanced_at < ADVANCE_EVERY_S):
            return
        place = cursor.version, cursor.tick
        if place != self._place:
            self._store.advance(self.view, self._follower, *place)
            self._advanced_at, self._place = now, place

    def unfollow(self) -> None:
        """End: nothing is logged for it any more."""
        assert self._follower is not None, "a reader that the store knows has a name"
        self._store.unfollow(self.view, self._follower)


def _check_settles(version: Version) -> None:
    view = version.view
    if view.window is None or view.over is not None:
        raise QuestionError(
            f"view '{view.name}' has no window, so none of its rows is ever settled"
            if view.over is None
            else f"view '{view.name}' is over a table, so none of its rows is ever settled",
            fix="leave out EMIT ON WINDOW CLOSE, or declare the view with window(…) in GROUP BY",
        )
