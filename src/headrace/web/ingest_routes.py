"""Endpoints that accept events and report when views have them."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace.api.shared_options import INTAKE
from headrace.api.verbs import Verbs
from headrace.errors import DefinitionError, RequestError
from headrace.ingest.receiver import IngestReply
from headrace.language.durations import parse_duration
from headrace.transport.transport_contract import LONGEST_KEY
from headrace.web.body import (
    BodyAdmission,
    declared_bytes,
    read_body,
    read_compression,
    read_file_piece,
    read_layout,
    receive_body,
    unpack_body,
)
from headrace.web.meter import EVENT_COUNTS
from headrace.web.replies import PlainRoute, reply_json
from headrace.web.verb_routes import route_of

if TYPE_CHECKING:
    from headrace.ingest.receiver import TokenState
    from headrace.server.runtime import Runtime

SMALL_BODY = 256 << 10  # parsed in a millisecond or two: a thread would cost more than it frees
READ_AT_ONCE = 2  # large uncompressed bodies that are parsed at a time (and one compressed): each needs memory
LONGEST_WAIT_S = 60.0
WAIT_SLICE_S = 0.5  # how soon a waiting request notices a disconnected client or a stopping server
MOST_WAITING = 256

EVENTS_DOC: dict[str, Any] = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
            "description": "A retried request with the same key and body adds nothing; with another body it is a 409. "
            f"At most {LONGEST_KEY} characters.",
        },
        {
            "name": "Headrace-File",
            "in": "header",
            "schema": {"type": "string"},
            "description": "Which part of which file the events are, as JSON: `name`; `mark`, the mark after "
            "this part; `after`, the mark before it, or for a first part `seen`, the version of the name; `first`, a "
            "hash of the first event; `start`, true to count the events again. 409 `stale_mark` if the part does not "
            "begin at the stored mark.",
        },
        {
            "name": "keep_bad",
            "in": "query",
            "schema": {"type": "boolean"},
            "description": "Accept all events; those that cannot be parsed become dead letters.",
        },
        {
            "name": "delimiter",
            "in": "query",
            "schema": {"type": "string"},
            "description": INTAKE["delimiter"].about,
        },
        {
            "name": "fields",
            "in": "query",
            "schema": {"type": "string"},
            "description": INTAKE["fields"].about,
        },
        {
            "name": "Content-Encoding",
            "in": "header",
            "schema": {"type": "string", "enum": ["gzip", "zstd"]},
            "description": "Compression of the body.",
        },
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"oneOf": [{"type": "object"}, {"type": "array"}]}},
            "application/x-ndjson": {"schema": {"type": "string"}},
            "text/csv": {"schema": {"type": "string"}},
            "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
            "text/plain": {"schema": {"type": "string"}},
        },
    },
}


def ingest_routes(runtime: Runtime, max_body: int, admission: BodyAdmission) -> APIRouter:
    """The endpoints, over a runtime."""
    routes = APIRouter(tags=["events"], route_class=PlainRoute)
    reading, unpacking = anyio.CapacityLimiter(READ_AT_ONCE), anyio.CapacityLimiter(1)
    waiting = anyio.CapacityLimiter(MOST_WAITING)

    @routes.post(Verbs.ingest.path, response_class=Response, openapi_extra=EVENTS_DOC)
    async def take_events(stream: str, request: Request) -> Response:
        """Send events in any supported format. They are on disk when the reply is sent."""
        keep_bad = _flag(request, "keep_bad")
        layout, compression = read_layout(request), read_compression(request)
        key = request.headers.get("idempotency-key")
        file = read_file_piece(request)
        with admission.claim(min(declared_bytes(request), max_body)) as claim:
            raw: bytes | memoryview | None = None
            if keep_bad and compression is None and declared_bytes(request) > SMALL_BODY:
                raw = await receive_body(request, max_body)  # it is stored as it comes
            body = [await read_body(request, max_body, claim) if raw is None else raw]
            raw = None

            def take() -> Future[IngestReply]:
                events = body.pop()  # the only reference, so that its memory can be freed before the reply
                if compression:
                    events = unpack_body(bytes(events), compression, max_body)
                return runtime.lookup.intake(stream).take(events, layout=layout, key=key, keep_bad=keep_bad, file=file)

            if len(body[0]) <= SMALL_BODY and compression is None:
                future = take()
            else:
                future = await anyio.to_thread.run_sync(take, limiter=unpacking if compression else reading)
            # Shielded: a disconnected request must not cancel a write that it shares with other requests.
            reply = await asyncio.shield(asyncio.wrap_future(future))
        request.scope[EVENT_COUNTS] = (reply.accepted, len(reply.refused))
        return reply_json(reply.as_dict())

    @route_of(routes, Verbs.sent, _FILES_DOC)
    async def find_sent(stream: str, request: Request) -> Response:
        """How much of a file was sent: its marks under this name, with the number of stored events of each.

        `version` changes with each part; `same` lists files with other names that begin with the same event.
        """
        name, first = (request.query_params.get(parameter, "") for parameter in ("name", "first"))
        if not name:
            raise RequestError("parameter 'name' is missing", expected="the name of a file")
        return reply_json(runtime.lookup.intake(stream).sent(name, first))

    @routes.get(Verbs.wait_token.path, response_class=Response, openapi_extra=_WAIT_DOC)
    async def follow(token: str, request: Request) -> Response:
        """Whether every serving view has the events of an ingest reply; lists stalled views."""
        deadline = time.monotonic() + read_wait(request)
        state: TokenState = runtime.tokens.state(token)
        while not state.complete and (remaining_s := deadline - time.monotonic()) > 0:
            stopping = request.app.state.stopping or runtime.stopped.is_set()
            if stopping or await request.is_disconnected():
                break
            state = await anyio.to_thread.run_sync(
                runtime.tokens.wait, token, min(remaining_s, WAIT_SLICE_S), limiter=waiting
            )
        return reply_json(state.as_dict())

    return routes


_FILES_DOC: dict[str, Any] = {
    "parameters": [
        {"name": name, "in": "query", "schema": {"type": "string"}, "description": what}
        for name, what in (("name", "Name of the file."), ("first", "Hash of its first event."))
    ]
}
_WAIT_DOC: dict[str, Any] = {
    "parameters": [
        {
            "name": "wait",
            "in": "query",
            "schema": {"type": "string"},
            "description": f"How long to wait for completion, such as 30s; at most {LONGEST_WAIT_S:.0f} s.",
        }
    ]
}


def _flag(request: Request, name: str) -> bool:
    text = request.query_params.get(name, "false").lower()
    if text not in ("true", "false", "1", "0", ""):
        raise RequestError(f"parameter '{name}' is not a boolean", found=repr(text), expected="true or false")
    return text in ("true", "1")


def read_wait(request: Request) -> float:
    """How many seconds a request may wait, by its parameter."""
    text = request.query_params.get("wait")
    if not text:
        return 0.0
    try:
        return min(parse_duration(text) / 1000, LONGEST_WAIT_S)
    except DefinitionError as error:
        raise RequestError("parameter 'wait' is not a duration", found=repr(text), expected="such as 30s") from error
