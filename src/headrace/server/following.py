"""Who follows a running workspace: the logs of its streams, and its named subscriptions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.follow.bell import Bell
from headrace.follow.events import EventLog
from headrace.follow.sources import Source, StreamSource
from headrace.follow.subscriptions import Subscriptions
from headrace.follow.terms import Terms
from headrace.follow.view_source import ViewSource
from headrace.server.stream import RunningStream
from headrace.store.base import Store


class Following:
    """Asked by HTTP threads. A log is opened for its first reader."""

    def __init__(
        self, folder: Path, store: Store, pipeline_of: Callable[[str], RunningStream], still_mine: Callable[[], None]
    ) -> None:
        self._store = store
        self._pipeline_of = pipeline_of  # raises if there is no such stream
        self._applied = Bell()
        self._lock = threading.Lock()
        self._logs: dict[str, EventLog] = {}
        self._sources: dict[str, tuple[object, Source]] = {}  # by subscription, with what it was made for
        self.subscriptions = Subscriptions(folder, self._source_of, still_mine)

    def log(self, stream: str) -> EventLog:
        """The events of a stream. A stream that was dropped and created again has another log."""
        pipeline = self._pipeline_of(stream)
        table = pipeline.table
        with self._lock:
            log = self._logs.get(stream)
            if log is None or log.table is not table:
                log = EventLog(table, lambda: pipeline.stream)
                self._logs[stream] = log
        return log

    def _source_of(self, terms: Terms) -> Source:
        log = self.log(terms.stream) if terms.stream else None
        with self._lock:
            basis, source = self._sources.get(terms.name, (None, None))
            if source is None or basis != (id(log), terms):
                source = self._make_source(terms, log)
                self._sources[terms.name] = ((id(log), terms), source)
        return source

    def _make_source(self, terms: Terms, log: EventLog | None) -> Source:
        if log is not None:
            return StreamSource(log, terms.where, terms.key)
        assert terms.view is not None, "a subscription is over one of both"
        return ViewSource(self._store, self._applied, terms.name, terms.view, terms.where, terms.key)

    def begin(self) -> None:
        """Follow the views of all subscriptions: their changes are logged from now on."""
        for name in self.subscriptions.names:
            with suppress(HeadraceError):  # it is shown in its status
                _ = self.subscriptions.queue(name).source

    def notify(self) -> None:
        """A version of a view moved."""
        self._applied.ring()

    def close(self) -> None:
        """The server stops."""
        self.subscriptions.close()
