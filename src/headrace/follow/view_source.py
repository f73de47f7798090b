"""What a subscription over a view reads: the changes of its rows, as upserts and deletes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import orjson

from headrace.follow.bell import Bell
from headrace.follow.change_question import ChangeQuestion
from headrace.follow.page import EARLIEST, LATEST, columns_json
from headrace.follow.sources import SourcePage
from headrace.follow.subscription import Batch
from headrace.follow.view_filter import ChangeFilter
from headrace.serve.change_cursor import Cursor
from headrace.serve.changes import ChangeBatch, Columns, changes_after, cursor_now, no_changes
from headrace.serve.follower import ViewFollower
from headrace.serve.values import encoder
from headrace.store.base import Store


class ViewSource:
    """The changes of a view that a condition selects. A row is given as it is when it is read, so batches keep it."""

    repeats = False

    def __init__(
        self, store: Store, bell: Bell, subscription: str, view: str, where: str | None, key: Mapping[str, Any]
    ) -> None:
        question = ChangeQuestion.of(view, key, where)
        self._store = store
        self._view = view
        self._bell = bell
        self._follower = ViewFollower(store, view, f"subscription:{subscription}")
        self._lock = threading.Lock()
        # Which rows the members have is not known: whatever no longer passes is a delete.
        self._filter = ChangeFilter(question.key, question.where, fresh=False) if where or key else None
        empty = no_changes(store, view)
        if self._filter:
            self._filter.prepare(empty)  # a mistake in it is an error now
        self._columns = columns_json(empty.columns)
        self._follower.follow()

    @property
    def bell(self) -> Bell:
        """Rung by each step of the view."""
        return self._bell

    def start(self, place: str | None) -> str:
        """The cursor of a new subscription: by default before all rows, as the empty text."""
        if place in (None, "", EARLIEST):
            return ""
        if place == LATEST:
            return cursor_now(self._store, self._view).to_text()
        return Cursor.from_text(str(place)).to_text()

    def next(self, cursor: str, limit: int) -> SourcePage:
        """The next changes that are selected; there may be more than asked for."""
        after = Cursor.from_text(cursor) if cursor else None
        with self._lock:
            batch = changes_after(self._store, self._view, after, limit=limit)
            lines = tuple(_lines(batch, *self._select(batch)))
            self._columns = columns_json(batch.columns)
            self._follower.passed(after)
        return SourcePage(lines, batch.cursor.to_text(), self._columns)

    def again(self, batch: Batch) -> SourcePage:
        """The changes as they were delivered before."""
        lines = tuple(line.encode() for line in batch.content or ())
        return SourcePage(lines, batch.until, self._columns)

    def ids(self, lines: tuple[bytes, ...]) -> list[str]:
        """Their numbers within the batch."""
        return [orjson.loads(line)["cursor"] for line in lines]

    def lag(self, cursor: str) -> int | None:
        """The commits whose changes were not delivered; None before all rows were."""
        if not cursor:
            return None
        now, after = cursor_now(self._store, self._view), Cursor.from_text(cursor)
        return max(0, now.tick - after.tick) if now.version == after.version else None

    def drop(self) -> None:
        """The subscription is gone."""
        self._follower.unfollow()

    def _select(self, batch: ChangeBatch) -> tuple[Any, Any]:
        return self._filter.select(batch) if self._filter else (batch.upserts, batch.deletes)


def _lines(batch: ChangeBatch, upserts: Any, deletes: Any) -> list[bytes]:
    """The changes as JSON, numbered."""
    changes: list[dict[str, Any]] = [{"op": "restart"}] if batch.restarted else []
    changes += [{"op": "delete", "row": row} for row in _rows(batch.columns, deletes)]
    changes += [{"op": "upsert", "row": row} for row in _rows(batch.columns, upserts)]
    end = {"version": batch.version, "commit": batch.commit}
    return [orjson.dumps({"cursor": f"{number}", **change, **end}) for number, change in enumerate(changes)]


def _rows(columns: Columns, rows: Any) -> list[dict[str, Any]]:
    converts = [encoder(of) for _, of in columns]
    names = [name for name, _ in columns]
    return [
        {
            name: value if value is None or convert is None else convert(value)
            for name, convert, value in zip(names, converts, row, strict=False)
        }
        for row in rows
    ]
