"""The endpoint that follows the events of a stream: server-sent events, or pages of JSON."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace.api.verbs import Verbs
from headrace.deliver.event_log import FROM
from headrace.deliver.event_page import DEFAULT_LIMIT, HIGHEST_LAST, HIGHEST_LIMIT, Cursor, EventPage, EventQuestion
from headrace.deliver.filters import EventFilter
from headrace.deliver.stream_logs import Log, first_cursor
from headrace.errors import NotFoundError, QuestionError, RequestError, did_you_mean
from headrace.serve.question import read_key
from headrace.web.ingest_routes import LONGEST_WAIT_S, read_wait
from headrace.web.replies import JSON, NamedRoute, reply_encoded
from headrace.web.sse import LOOK_S, READING, Heartbeat, encoded, hello, reply_events, stopping

if TYPE_CHECKING:
    from headrace.server.runtime import Runtime

SENT_AT_ONCE = 1_000
_PARAMETERS = {
    "from": f"{FROM}; default latest. A time is that of the commit",
    "last": f"begin with this number of the last events instead, at most {HIGHEST_LAST:,}; counted before where",
    "where": "only events for which this condition is true, such as status >= 500",
    "limit": f"of JSON: maximum number of events, default {DEFAULT_LIMIT:,}, at most {HIGHEST_LIMIT:,}",
    "cursor": "of JSON: the cursor of the previous reply",
    "wait": f"of JSON: how long to wait for a first event, such as 30s; at most {LONGEST_WAIT_S:.0f} s",
}
_DOC: dict[str, Any] = {
    "parameters": [
        {
            "name": "Last-Event-ID",
            "in": "header",
            "schema": {"type": "string"},
            "description": "The id of the last event that was received; continues after it, in place of `from`.",
        },
        {
            "name": "key",
            "in": "query",
            "style": "form",
            "explode": True,
            "schema": {"type": "object", "additionalProperties": {"type": "string"}},
            "description": r"`key.FIELD=value` selects events with this value; repeat it for several; \N is NULL.",
        },
        *(
            {"name": name, "in": "query", "schema": {"type": "string"}, "description": text}
            for name, text in _PARAMETERS.items()
        ),
    ]
}


def tail_routes(runtime: Runtime) -> APIRouter:
    """The endpoint, over a runtime."""
    routes = APIRouter(tags=["events"], route_class=NamedRoute)

    @routes.get(Verbs.events.path, response_class=Response, openapi_extra=_DOC)
    async def tail(stream: str, request: Request) -> Response:
        """Follow the events of a stream, as server-sent events.

        Events are sent in the order of the log: by commit, then by position. Each is `id: CURSOR` and
        `data: {"cursor", "commit", "position", "arrived", "event": {…}}`; `event` has the fields. A client that
        connects again sends the last id as `Last-Event-ID`, as browsers do, and continues after it, also when the
        server was restarted. An idle connection gets a comment every 10 s, and the id of the place that was reached.

        With `Accept: application/json` the reply is one page: `{"cursor", "more", "columns", "events": […]}`.
        """
        question = read_question(request)
        log = runtime.logs.log(stream)
        filter_ = log.filter(question.where, question.key)
        cursor = await anyio.to_thread.run_sync(first_cursor, log, question, limiter=READING)
        if JSON in request.headers.get("accept", ""):
            wait_s = read_wait(request)
            return reply_encoded(
                (await _page(runtime, request, log, filter_, cursor, question.limit, wait_s)).as_json()
            )
        return reply_events(_follow(runtime, request, stream, log, filter_, cursor))

    return routes


def read_question(request: Request) -> EventQuestion:
    """The question in the parameters of a request."""
    keys: dict[str, list[str | None]] = {}
    values: dict[str, str] = {}
    for name, text in request.query_params.multi_items():
        if name.startswith("key."):
            keys.setdefault(name.removeprefix("key."), []).append(read_key(text))
        elif name in _PARAMETERS:
            values[name] = text
        else:
            raise QuestionError(
                f"'{name}' is not a parameter of tail",
                expected=f"key.FIELD, {', '.join(_PARAMETERS)}",
                fix=did_you_mean(name, _PARAMETERS),
            )
    last_id = request.headers.get("last-event-id")
    return EventQuestion(
        cursor=last_id or values.get("cursor") or None,
        start=None if last_id else values.get("from") or None,
        last=None if last_id else read_number("last", values.get("last")),
        where=values.get("where"),
        key=keys,
        limit=read_number("limit", values.get("limit")) or DEFAULT_LIMIT,
    )


def read_number(name: str, text: str | None) -> int | None:
    """A number of a URL."""
    if text is None or text == "":
        return None
    if not text.isdecimal() or len(text) > 12:
        raise RequestError(f"parameter '{name}' is not a number", found=repr(text)[:80], expected="such as 100")
    return int(text)


async def _read(log: Log, cursor: Cursor, filter_: EventFilter | None, limit: int) -> EventPage:
    """What follows a cursor: from memory if it is there, which it is for all but the first reader of new events."""
    any_log: Any = log  # its cursors fit this log only, which types cannot tell
    recent: EventPage | None = any_log.recent(cursor, filter_, limit)
    if recent is not None:
        return recent
    page: EventPage = await anyio.to_thread.run_sync(any_log.after, cursor, filter_, limit, limiter=READING)
    return page


async def _page(
    runtime: Runtime,
    request: Request,
    log: Log,
    filter_: EventFilter | None,
    cursor: Cursor,
    limit: int,
    wait_s: float,
) -> EventPage:
    deadline = time.monotonic() + wait_s
    while True:
        known = log.notifier.count
        page = await _read(log, cursor, filter_, limit)
        cursor, left_s = page.cursor, deadline - time.monotonic()
        if page.lines or left_s <= 0 or stopping(request, runtime) or await request.is_disconnected():
            return page
        if not page.more:
            await log.notifier.wait_async(known, min(left_s, LOOK_S))


async def _follow(
    runtime: Runtime,
    request: Request,
    stream: str,
    log: Log,
    filter_: EventFilter | None,
    cursor: Cursor,
) -> AsyncIterator[bytes]:
    yield hello(cursor.to_text())
    heartbeat = Heartbeat()
    while not stopping(request, runtime):
        known = log.notifier.count
        page = await _read(log, cursor, filter_, SENT_AT_ONCE)
        cursor = page.cursor
        if page.lines:
            yield encoded(page.lines)
            heartbeat.restart()
        elif heartbeat.due():
            yield f": heartbeat\nid: {cursor.to_text()}\n\n".encode()
        if not page.more:
            await log.notifier.wait_async(known, LOOK_S)
        if runtime.logs.log(stream) is not log:
            raise NotFoundError(f"stream '{stream}' was dropped and created again", fix="read it from the start")
