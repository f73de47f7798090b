"""Keeps answers of logical views for a while, so that all pages of an answer are of one moment."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.sql.answer import SqlAnswer

AHEAD = 100_000  # rows of an answer that are evaluated for its first page, at most
MOST_BYTES = 128 << 20  # of all answers
LARGEST_SHARE = 8  # of one answer, rows up to MOST_BYTES / LARGEST_SHARE are kept
KEEP_S = 600.0


@dataclass(frozen=True)
class _Entry:
    answer: SqlAnswer
    first: int  # how many rows of the view come before those of the answer
    until: float


class Pages:
    """The last answers that were longer than their first page."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # the one that was used last is last

    def keep(self, answer: SqlAnswer, first: int, id: str | None = None) -> str:
        """Keep an answer whose rows follow `first` others; returns the id that finds it."""
        id = id or secrets.token_urlsafe(9)
        with self._lock:
            self._entries[id] = _Entry(_fitting(answer), first, self._now() + KEEP_S)
            self._entries.move_to_end(id)
            self._clear()
        return id

    def find(self, id: str, skip: int) -> SqlAnswer | None:
        """The kept rows after the first `skip` of the view; None if they must be evaluated."""
        with self._lock:
            self._clear()
            entry = self._entries.get(id)
            if entry is None:
                return None
            self._entries.move_to_end(id)
        place, rows = skip - entry.first, entry.answer.table.num_rows
        if not 0 <= place < rows:
            return None
        return replace(entry.answer, table=entry.answer.table.slice(place))

    def _clear(self) -> None:
        now = self._now()
        for id in [id for id, entry in self._entries.items() if entry.until < now]:
            del self._entries[id]
        while sum(entry.answer.table.nbytes for entry in self._entries.values()) > MOST_BYTES:
            self._entries.popitem(last=False)


def first_rows(answer: SqlAnswer, count: int) -> SqlAnswer:
    """The first rows of an answer; it knows how many it leaves out."""
    left_out = answer.table.num_rows - count
    if left_out <= 0:
        return answer
    more = None if answer.more_rows is None else answer.more_rows + left_out
    return replace(answer, table=answer.table.slice(0, count), truncated=True, more_rows=more)


def _fitting(answer: SqlAnswer) -> SqlAnswer:
    size, rows = answer.table.nbytes, answer.table.num_rows
    most = MOST_BYTES // LARGEST_SHARE
    return answer if size <= most else first_rows(answer, max(1, rows * most // size))
