"""Events and dead letters of a workspace without a running server, as its lakes have them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from headrace.api.local_folder import WorkspaceFolder
from headrace.define.model import Stream
from headrace.deliver.event_log import EventLog
from headrace.deliver.event_page import EventPage, EventQuestion
from headrace.deliver.failed_events import FailedCalls, stream_of_view
from headrace.deliver.stream_logs import open_derived, read_events
from headrace.deliver.table_changes import TableChanges
from headrace.errors import NotReadyError
from headrace.lake.dead_letter_pages import DeadLetters
from headrace.store.version import NOT_PINNED, Pinned


class LocalEvents:
    """Reads the lakes of streams, which `stream_of` finds by name."""

    def __init__(self, folder: WorkspaceFolder, stream_of: Callable[[str], Stream]) -> None:
        self._folder = folder
        self._stream = stream_of
        self._logs: dict[str, EventLog] = {}
        self._changes = TableChanges(cache(folder.base_and_lake))

    def letters(self, stream: str) -> DeadLetters | FailedCalls:
        """The dead letters of a stream; of a derived one or a view, the rows that it leaves out."""
        view = None if stream in self._folder.catalog.streams else self._folder.catalog.views.get(stream)
        if view is not None:
            versions = self._folder.stored_versions()
            version = next((each for each in versions if each.view.name == stream and each.serving), None)
            left_out = stream_of_view(version.view if version else view)
            return self._failed_calls(left_out, version.pinned if version else NOT_PINNED, "view")
        definition = self._stream(stream)
        if definition.relation is not None:
            return self._failed_calls(definition)
        return DeadLetters(stream, self._folder.lake(definition))

    def _failed_calls(self, stream: Stream, pinned: Pinned = NOT_PINNED, kind: str = "stream") -> FailedCalls:
        bases = [self._stream(name) for name in (stream.relation.streams if stream.relation else ())]
        lakes = {base.name: (partial(_same, base), self._folder.lake(base)) for base in bases}
        return FailedCalls(stream, lakes, tables=self._changes, pinned=pinned, kind=kind)

    def read(self, stream: str, question: EventQuestion, wait_s: float = 0.0) -> EventPage:
        """The events that the lake has. Without a server no others come."""
        definition = self._stream(stream)
        if definition.relation is None:
            page = read_events(self._log(definition), question)
        else:
            bases = {name: self._stream(name) for name in definition.relation.streams}
            logs = {name: self._log(base) for name, base in bases.items()}
            streams = {name: partial(_same, base) for name, base in bases.items()}
            page = read_events(open_derived(lambda: definition, streams, logs, self._changes), question)
        if wait_s and not page.lines and not page.more:
            raise NotReadyError(
                f"no server is running, so stream '{stream}' receives no more events",
                fix="`headrace up` starts one; `--no-follow` shows the existing events",
            )
        return page

    def _log(self, stream: Stream) -> EventLog:
        if stream.name not in self._logs:
            table = self._folder.lake(stream)
            if table is None:
                raise NotReadyError(
                    f"stream '{stream.name}' has no events yet", fix="`headrace up` processes what was sent"
                )
            self._logs[stream.name] = EventLog(table, lambda: stream)
        return self._logs[stream.name]


def _same(stream: Stream) -> Stream:
    return stream
