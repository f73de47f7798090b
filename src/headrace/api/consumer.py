"""Events as they come, in Python: the tail of a stream, and membership in a named subscription."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headrace.deliver.event_page import Columns, EventPage, EventQuestion, StreamEvent, decode_values, read_columns
from headrace.errors import NotFoundError, did_you_mean
from headrace.serve.change_batch import ViewChange

if TYPE_CHECKING:
    from headrace.api.verbs import Backend, Verbs

WAIT_S = 25.0  # of one request for the next events
ACKNOWLEDGE_EVERY_S = 1.0  # how long acknowledgements of single events are gathered


def tail_pages(verbs: Verbs, stream: str, question: EventQuestion, *, follow: bool) -> Iterator[EventPage]:
    """The events of a stream, in the order of the log; with `follow` it goes on over restarts of the server."""
    while True:
        page = verbs.events(stream, question, WAIT_S if follow else 0.0)
        yield page
        question = replace(question, cursor=page.cursor.to_text(), start=None, last=None)
        if not page.more and not follow:
            return


def tail_events(verbs: Verbs, stream: str, question: EventQuestion, *, follow: bool) -> Iterator[StreamEvent]:
    """The same events, one by one."""
    for page in tail_pages(verbs, stream, question, follow=follow):
        yield from page.events()


class ReceivedEvent:
    """An event, or a change of a view, that a subscription delivered.

    It has the attributes of a `StreamEvent`, or of a `ViewChange`, and `attempt` and `ack()`. `event["page"]` is a
    field, or a column of the row.
    """

    def __init__(self, event: StreamEvent | ViewChange, batch: ReceivedBatch, content: Mapping[str, Any]) -> None:
        self.event = event
        self.content = content  # as JSON
        self._batch = batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.event, name)

    def __getitem__(self, field: str) -> Any:
        return self.event.row[field] if isinstance(self.event, ViewChange) else self.event[field]

    def __repr__(self) -> str:
        return f"<{self._batch.subscription} {self.event!r}>"

    @property
    def attempt(self) -> int:
        """The number of deliveries of its batch; 1 is the first."""
        return self._batch.attempt

    def ack(self) -> None:
        """Acknowledge the event: it is not delivered again.

        Acknowledgements are sent when all events of the batch have one, and otherwise once a second.
        """
        self._batch.acknowledge_event(self.content["cursor"])


class ReceivedBatch:
    """Events that were delivered together, in order. Iterate over the batch, then call `ack()`."""

    def __init__(self, backend: Backend, subscription: str, content: Mapping[str, Any]) -> None:
        columns = read_columns(content["columns"])
        self.subscription = subscription
        self.lease: str | None = content["lease"]
        self.attempt: int = content["attempt"]
        self.events = [ReceivedEvent(_read(event, columns), self, event) for event in content["events"]]
        self._backend = backend
        self._open = {event.content["cursor"] for event in self.events}
        self._gathered: list[str] = []
        self._sent_at = time.monotonic()

    def __iter__(self) -> Iterator[ReceivedEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def ack(self) -> None:
        """Acknowledge all events of the batch; the acknowledgement is on the server's disk when this returns."""
        self._open.clear()
        self._gathered.clear()
        if self.lease is not None:
            self._backend.acknowledge(self.subscription, [self.lease])

    def nack(self) -> None:
        """Reject the batch: it is delivered again immediately, to any member."""
        self.flush()
        if self.lease is not None:
            self._backend.give_back(self.subscription, [self.lease])

    def acknowledge_event(self, cursor: str) -> None:
        """Acknowledge one event of the batch."""
        if self.lease is None or cursor not in self._open:
            return
        self._open.discard(cursor)
        self._gathered.append(cursor)
        if not self._open:
            self.ack()
        elif time.monotonic() - self._sent_at >= ACKNOWLEDGE_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Send the collected acknowledgements."""
        self._sent_at = time.monotonic()
        if self.lease is not None and self._gathered:
            gathered, self._gathered = self._gathered, []
            self._backend.acknowledge(self.subscription, [self.lease], gathered)


class Subscription:
    """Membership in a named subscription: each event goes to one of its members. Iterate over it. Close it, or use it
    in a `with` block: its unacknowledged events then go to other members immediately.
    """

    def __init__(self, backend: Backend, name: str, *, limit: int, credit: int) -> None:
        self.name = name
        self._backend = backend
        self._contents = backend.batches(name, limit, credit)
        self._batch: ReceivedBatch | None = None

    def __iter__(self) -> Iterator[ReceivedEvent]:
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[ReceivedBatch]:
        """The batches, in place of their single events."""
        for content in self._contents:
            if self._batch is not None:
                self._batch.flush()
            self._batch = ReceivedBatch(self._backend, self.name, content)
            yield self._batch

    def close(self) -> None:
        """Leave the subscription, after sending the collected acknowledgements."""
        if self._batch is not None:
            self._batch.flush()
        self._contents.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _read(content: Mapping[str, Any], columns: Columns) -> StreamEvent | ViewChange:
    if "op" not in content:
        return StreamEvent.from_dict(content, columns)
    return ViewChange(
        content["op"], decode_values(content.get("row", {}), columns), content["version"], content["commit"]
    )


def kind_of(backend: Backend, name: str) -> str:
    """Whether a name is that of a stream or of a view."""
    streams = [stream.name for stream in backend.streams() if not stream.table]
    if name in streams:
        return "stream"
    views = [*(view.name for view in backend.views()), *(view.name for view in backend.logical_views())]
    if name in views:
        return "view"
    hint = did_you_mean(name, [*streams, *views])
    raise NotFoundError(
        f"there is no stream or view '{name}'",
        fix=f"{hint + ' ' if hint else ''}`headrace streams` and `headrace views` list all",
    )
