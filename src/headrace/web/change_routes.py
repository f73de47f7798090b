"""The changes of a view as server-sent events: resumed by `Last-Event-ID`, over reconnects and restarts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace.api.verbs import Verbs
from headrace.deliver.change_question import ChangeQuestion
from headrace.deliver.live_feed import ChangeReader, FedBatch, LiveFeed, encode_columns, encode_messages
from headrace.serve.change_batch import ChangeCursor
from headrace.web import sse
from headrace.web.replies import NamedRoute
from headrace.web.verb_routes import route_of

if TYPE_CHECKING:
    from headrace.api.server_verbs import ServerVerbs

MOST_READS = 2  # of the store at once, for readers that are behind: others must not wait for them
_DOC: dict[str, Any] = {
    "parameters": [
        {
            "name": "key",
            "in": "query",
            "style": "form",
            "explode": True,
            "schema": {"type": "object", "additionalProperties": {"type": "string"}},
            "description": r"`key.NAME=value` selects rows with this key; repeat it for several values; \N is NULL.",
        },
        *(
            {"name": name, "in": where, "schema": {"type": "string"}, "description": text}
            for name, where, text in (
                ("where", "query", "only rows for which this condition is true, such as n > 5"),
                ("snapshot", "query", "false: only changes from now on; default true: all rows first"),
                ("settled_only", "query", "true: rows of settled windows only, when they settle, and corrections"),
                ("cursor", "query", "continue after the message with this id; as Last-Event-ID"),
                ("Last-Event-ID", "header", "continue after the message with this id; browsers send it automatically"),
            )
        ),
    ],
    "responses": {"200": {"description": "messages", "content": {sse.EVENT_STREAM: {}}}},
}


def change_routes(verbs: ServerVerbs) -> APIRouter:
    """The endpoint."""
    routes = APIRouter(tags=["subscriptions"], route_class=NamedRoute)
    reads: list[anyio.CapacityLimiter] = []

    @route_of(routes, Verbs.changes, _DOC)
    async def follow_view(view: str, request: Request) -> Response:
        """Subscribe to the changes of a view, as server-sent events.

        Each message is `{"op": "upsert"|"delete", "row": {…}, "version", "commit"}`; a row of the first, complete state
        also has `"snapshot": true`. After `{"op": "restart"}` all earlier rows must be discarded; `{"op": "caught_up"}`
        follows when the first state is complete. The event `columns` names columns, types and keys; the event `error`
        has an error and ends the reply.
        """
        question = ChangeQuestion.from_text(view, request.query_params.multi_items())
        last = request.headers.get("last-event-id")
        if last:
            ChangeCursor.from_text(last)
            question = replace(question, cursor=last)
        reads[:] = reads or [anyio.CapacityLimiter(MOST_READS)]
        make = lambda: verbs.feed(view, settled_only=question.settled_only)  # noqa: E731
        feed = await anyio.to_thread.run_sync(make)
        reader = await anyio.to_thread.run_sync(ChangeReader, feed, question)
        stream = ChangeStream(feed, reader, request, reads[0])
        first = await stream.begin()
        return sse.reply_events(stream.messages(first))

    return routes


class ChangeStream:
    """What one subscriber is sent."""

    def __init__(self, feed: LiveFeed, reader: ChangeReader, request: Request, reads: anyio.CapacityLimiter) -> None:
        self._feed = feed
        self._reader = reader
        self._state = request.app.state
        self._reads = reads
        self._columns: object = None
        self._sent_cursor: str | None = None

    async def begin(self) -> FedBatch | None:
        """The first batch; raises before the reply has begun, so that it can have the status of the error."""
        return await anyio.to_thread.run_sync(self._reader.start, limiter=self._reads)

    async def messages(self, first: FedBatch | None) -> AsyncIterator[bytes]:
        """Until the client disconnects, the server stops, or the view is gone."""
        yield sse.hello(None)
        await anyio.to_thread.run_sync(self._feed.enter, limiter=self._reads)
        try:
            async for message in self._follow(first):
                yield message
        finally:
            self._feed.leave()

    async def _follow(self, batch: FedBatch | None) -> AsyncIterator[bytes]:
        reader = self._reader
        caught_up = False
        heartbeat = sse.Heartbeat()
        while not self._state.stopping:
            known = self._feed.changed.count
            batch = batch or reader.found
            if batch is None and reader.is_behind:
                batch = await anyio.to_thread.run_sync(self._feed.read, reader.cursor, limiter=self._reads)
            if batch is not None:
                message = self._encode(batch)
                reader.cursor = batch.cursor
                if message:
                    heartbeat.restart()
                    yield message
                more, batch = batch.batch.more, None
                if more:
                    continue
            if not caught_up:
                caught_up = True
                yield self._caught_up()
                continue
            if self._feed.error is not None:
                raise self._feed.error
            if reader.found is not None or (reader.is_behind and self._feed.head is not None):
                continue
            await self._feed.changed.wait_async(known, sse.LOOK_S)
            if heartbeat.due():
                yield self._heartbeat()

    def _encode(self, fed: FedBatch) -> bytes:
        batch, own_filter = fed.batch, self._reader.filter
        if own_filter is None:
            messages = fed.messages
        else:
            upserts, deletes = own_filter.select(batch)
            messages = encode_messages(batch, upserts, deletes, fed.cursor)
        if messages:
            self._sent_cursor = fed.cursor
            if self._columns != (batch.columns, batch.version):
                self._columns = (batch.columns, batch.version)
                messages = encode_columns(batch) + messages
        return messages

    def _caught_up(self) -> bytes:
        self._sent_cursor = self._reader.cursor
        return sse.message(b'{"op":"caught_up"}', (self._reader.cursor or "").encode())

    def _heartbeat(self) -> bytes:
        """A comment; if the cursor has moved without a message, an id without one."""
        if self._reader.cursor == self._sent_cursor:
            return b": still here\n\n"
        self._sent_cursor = self._reader.cursor
        return b": still here\nid: %s\n\n" % (self._reader.cursor or "").encode()
