"""What a subscription reads: the events of a stream. The protocol is the same for other logs with cursors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from headrace.follow.bell import Bell
from headrace.follow.logs import Log
from headrace.follow.page import LATEST, columns_json
from headrace.follow.subscription import Batch


@dataclass(frozen=True)
class SourcePage:
    """What follows a cursor: events as JSON, and the cursor behind them."""

    lines: tuple[bytes, ...]
    cursor: str
    columns: bytes  # as JSON


class Source(Protocol):
    """A log whose parts subscriptions deliver. Safe for any thread."""

    repeats: bool  # whether a part of it can be read again; otherwise batches keep their content

    @property
    def bell(self) -> Bell:
        """Rung when there is something new."""

    def start(self, place: str | None) -> str:
        """The cursor of a new subscription."""

    def next(self, cursor: str, limit: int) -> SourcePage:
        """What follows a cursor, at most so many."""

    def again(self, batch: Batch) -> SourcePage:
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
        self._log: Any = log  # its cursors fit this log only, which types cannot tell
        self._where = where
        self._key = key
        log.filter(where, key)  # a mistake in it is an error now

    @property
    def bell(self) -> Bell:
        """Rung by each commit."""
        bell: Bell = self._log.bell
        return bell

    def start(self, place: str | None) -> str:
        """The cursor of a new subscription: by default the end of the log."""
        return str(self._log.start(place, LATEST).to_text())

    def next(self, cursor: str, limit: int) -> SourcePage:
        """The next events that are selected."""
        log = self._log
        page = log.after(log.check(log.parse(cursor)), log.filter(self._where, self._key), limit)
        return SourcePage(page.lines, page.cursor.to_text(), columns_json(page.columns))

    def again(self, batch: Batch) -> SourcePage:
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
