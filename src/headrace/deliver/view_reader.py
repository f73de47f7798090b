"""Who follows a view by a name: the store logs what changes in it, from where the follower has come to."""

from __future__ import annotations

import time

from headrace.serve.change_batch import ChangeCursor
from headrace.store.store_contract import Store

ADVANCE_EVERY_S = 5.0  # how often the store is told: it may then forget what is before, and each time is a transaction


class ViewFollower:
    """A sink, a named subscription or an alert, as the store knows it."""

    def __init__(self, store: Store, view: str, name: str) -> None:
        self._store, self._view, self._name = store, view, name
        self._advanced_at: float | None = None
        self._place: tuple[int, int] | None = None  # what the store was told last

    def follow(self) -> None:
        """Begin, or go on after a restart."""
        self._store.follow(self._view, self._name)

    def passed(self, cursor: ChangeCursor | None) -> None:
        """It has all changes before a cursor. The store is told now and then, and only of a new place."""
        now = time.monotonic()
        if cursor is None or (self._advanced_at is not None and now - self._advanced_at < ADVANCE_EVERY_S):
            return
        place = cursor.version, cursor.tick
        if place != self._place:
            self._store.advance(self._view, self._name, *place)
            self._advanced_at, self._place = now, place

    def unfollow(self) -> None:
        """End: nothing is logged for it any more."""
        self._store.unfollow(self._view, self._name)
