"""Who follows a running workspace: the logs of its streams, and its named subscriptions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from headrace.errors import NotReadyError
from headrace.follow.events import EventLog
from headrace.follow.sources import Source, StreamSource
from headrace.follow.subscriptions import Subscriptions
from headrace.follow.terms import Terms
from headrace.server.stream import RunningStream


class Following:
    """Asked by HTTP threads. A log is opened for its first reader."""

    def __init__(
        self, folder: Path, pipeline_of: Callable[[str], RunningStream], still_mine: Callable[[], None]
    ) -> None:
        self._pipeline_of = pipeline_of  # raises if there is no such stream
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
        if terms.stream is None:
            raise NotReadyError(f"subscription '{terms.name}': changes of views are not delivered yet")
        log = self.log(terms.stream)
        with self._lock:
            basis, source = self._sources.get(terms.name, (None, None))
            if source is None or basis != (id(log), terms):
                source = StreamSource(log, terms.where, terms.key)
                self._sources[terms.name] = ((id(log), terms), source)
        return source

    def close(self) -> None:
        """The server stops."""
        self.subscriptions.close()
