"""The logs of a running workspace: the events of its streams for their readers, and named subscriptions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from headrace.define.definitions import views_reading
from headrace.define.model import Stream, View
from headrace.deliver.delivery_status import Terms
from headrace.deliver.event_log import EventLog
from headrace.deliver.failed_events import PATIENCE_S, FailedCalls, stream_of_view
from headrace.deliver.notifier import Notifier
from headrace.deliver.stream_logs import Log, open_derived
from headrace.deliver.subscription_source import StreamSource, SubscriptionSource, ViewSource
from headrace.deliver.subscriptions import Subscriptions
from headrace.deliver.table_changes import TableChanges
from headrace.errors import HeadraceError, QuestionError
from headrace.lake.dead_letter_pages import DeadLetters
from headrace.server.lookup import Lookup
from headrace.server.running_stream import RunningStream
from headrace.server.status import RefreshStatus
from headrace.store.store_contract import Store
from headrace.store.version import NOT_PINNED, Pinned

COUNTING_S = 0.2  # that counting dead letters may delay a status


class RunningLogs:
    """Asked by HTTP threads. A log is opened for its first reader."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        lookup: Lookup,
        still_mine: Callable[[], None],
        tables: TableChanges,
        refill: Callable[[str], RefreshStatus],
    ) -> None:
        """`refill` rebuilds a view with the keys that were missing in tables."""
        self._tables = tables
        self._store = store
        self._lookup = lookup
        self._refill_view = refill
        self._applied = Notifier()
        self._lock = threading.Lock()
        self._logs: dict[str, EventLog] = {}
        self._derived: dict[str, tuple[tuple[str, ...], Log]] = {}  # by name, with the base streams
        self._failed: dict[str, FailedCalls] = {}  # by derived stream or view
        self._sources: dict[str, tuple[object, SubscriptionSource]] = {}  # by subscription, with what it was made for
        self.subscriptions = Subscriptions(folder, self._source_of, still_mine)

    def log(self, stream: str) -> Log:
        """The events of a stream. A stream that was dropped and created again has another log."""
        derived = self._lookup.derived(stream)
        return self._base_log(stream) if derived is None else self._derived_log(derived)

    def _derived_log(self, stream: Stream) -> Log:
        assert stream.relation is not None, "it is derived"
        names = stream.relation.streams
        logs = {name: self._base_log(name) for name in names}
        with self._lock:
            bases, log = self._derived.get(stream.name, ((), None))
            if log is None or bases != names or log.tables != tuple(each.table for each in logs.values()):
                pipelines = {name: self._lookup.pipeline(name) for name in names}
                streams = {name: partial(_stream_of, pipeline) for name, pipeline in pipelines.items()}
                log = open_derived(partial(self._definition, stream), streams, logs, self._tables)
                self._derived[stream.name] = (names, log)
        return log

    def letters(self, stream: str) -> DeadLetters | FailedCalls:
        """Return the dead letters of a stream; of a derived one or a view, the rows that it leaves out."""
        derived, catalog = self._lookup.derived(stream), self._lookup.catalog
        if derived is not None or (stream in catalog.views and stream not in catalog.streams):
            calls = self.failed_calls(derived) if derived else self.view_letters(catalog.views[stream])
            calls.refill = partial(self._refill, stream)
            return calls
        return self._lookup.pipeline(stream).letters()

    def _refill(self, name: str) -> dict[str, int]:
        """Rebuild a view, or the readers of a derived stream, with the keys that were missing; their new versions."""
        views = views_reading(self._lookup.catalog, name)
        if not views:
            raise QuestionError(
                f"no materialized view reads stream '{name}': nothing can be replayed",
                fix="readers of its events continue after their cursors; `headrace tail` shows the rows of new events",
            )
        return {view: self._refill_view(view).version for view in views}

    def view_letters(self, view: View) -> FailedCalls:
        """The rows that the serving version of a view leaves out."""
        with self._store.snapshot() as snapshot:
            version = snapshot.serving(view.name)
        pinned = version.pinned if version else NOT_PINNED
        return self.failed_calls(stream_of_view(version.view if version else view), pinned, "view")

    def failed_calls(self, stream: Stream, pinned: Pinned = NOT_PINNED, kind: str = "stream") -> FailedCalls:
        """The dead letters of a derived stream; what was read of them is kept while the stream is the same."""
        assert stream.relation is not None, "it is derived"
        pipelines = {name: self._lookup.pipeline(name) for name in stream.relation.streams}
        tables = tuple(pipeline.table for pipeline in pipelines.values())
        with self._lock:
            calls = self._failed.get(stream.name)
            if calls is None or (calls.stream, calls.tables, calls.pinned) != (stream, tables, pinned):
                bases = {name: (partial(_stream_of, each), each.table) for name, each in pipelines.items()}
                calls = self._failed[stream.name] = FailedCalls(stream, bases, PATIENCE_S, self._tables, pinned, kind)
        return calls

    def count_failed(self, stream: Stream) -> int | None:
        """How many dead letters a derived stream has; None if it can have none, or if that takes too long now."""
        if stream.relation is None or not stream.relation.leaves_out:
            return None
        return self.failed_calls(stream).count(COUNTING_S)

    def _definition(self, known: Stream) -> Stream:
        """What a derived stream is now; once it is gone, what it was."""
        return self._lookup.derived(known.name) or known

    def _base_log(self, stream: str) -> EventLog:
        pipeline = self._lookup.pipeline(stream)
        table = pipeline.table
        with self._lock:
            log = self._logs.get(stream)
            if log is None or log.table is not table:
                log = EventLog(table, lambda: pipeline.stream)
                self._logs[stream] = log
        return log

    def _source_of(self, terms: Terms) -> SubscriptionSource:
        log = self.log(terms.stream) if terms.stream else None
        with self._lock:
            basis, source = self._sources.get(terms.name, (None, None))
            if source is None or basis != (id(log), terms):
                source = self._make_source(terms, log)
                self._sources[terms.name] = ((id(log), terms), source)
        return source

    def _make_source(self, terms: Terms, log: Log | None) -> SubscriptionSource:
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
        self._applied.notify()

    def close(self) -> None:
        """The server stops."""
        self.subscriptions.close()


def _stream_of(pipeline: RunningStream) -> Stream:
    return pipeline.stream
