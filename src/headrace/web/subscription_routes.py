"""Endpoints of named subscriptions: create, list, receive batches, acknowledge, drop."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace.api.verbs import Verbs
from headrace.deliver.delivery_status import DEFAULT_BATCH, DEFAULT_CREDIT, MOST_BATCH
from headrace.deliver.subscription_queue import Delivery, SubscriptionQueue
from headrace.errors import RequestError, did_you_mean
from headrace.web.body import read_body, read_object
from headrace.web.ingest_routes import LONGEST_WAIT_S, read_wait
from headrace.web.replies import NamedRoute, reply_encoded, reply_json
from headrace.web.sse import LOOK_S, READING, Heartbeat, hello, message, reply_events, stopping, wants_events
from headrace.web.tail_routes import read_number
from headrace.web.verb_routes import add_verb

if TYPE_CHECKING:
    from headrace.api.server_verbs import ServerVerbs
    from headrace.server.runtime import Runtime

_BODY_BYTES = 4 << 20
_CREATE = {each.name or name: each.about for name, each in Verbs.create_subscription.parameters().items()}
_ACK = {
    "lease": "the lease of a batch",
    "leases": "in place of `lease`: those of several batches",
    "events": "the cursors of some events of the batch; default all. The time-out of the others starts again",
}
_NACK = {name: _ACK[name] for name in ("lease", "leases")}
_EVENTS = {
    "limit": f"maximum number of events of a batch, default {DEFAULT_BATCH}, at most {MOST_BATCH:,}",
    "credit": f"how many events the member may hold without an acknowledgement, default {DEFAULT_CREDIT:,}",
    "wait": f"of JSON: how long to wait for a first event, such as 30s; at most {LONGEST_WAIT_S:.0f} s",
    "member": "of JSON: the `member` of the previous reply",
}


def _body_doc(fields: Mapping[str, str]) -> dict[str, Any]:
    properties = {name: {"description": text} for name, text in fields.items()}
    schema = {"type": "object", "properties": properties}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_EVENTS_DOC: dict[str, Any] = {
    "parameters": [
        {"name": name, "in": "query", "schema": {"type": "string"}, "description": text}
        for name, text in _EVENTS.items()
    ]
}


def subscription_routes(verbs: ServerVerbs) -> APIRouter:
    """The endpoints."""
    routes = APIRouter(tags=["subscriptions"], route_class=NamedRoute)
    runtime, numbers = verbs.runtime, itertools.count(1)
    subscriptions = runtime.logs.subscriptions

    @routes.get(Verbs.subscriptions.path, response_class=Response)
    def list_all() -> Response:
        """All named subscriptions: terms, cursor, lag, events in flight, members."""
        return reply_json({"subscriptions": subscriptions.statuses(), "damaged": subscriptions.problems()})

    @routes.get("/v1/subscriptions/{name}", response_class=Response)
    def show(name: str) -> Response:
        """One named subscription."""
        return reply_json(subscriptions.queue(name).status())

    @routes.post(Verbs.create_subscription.path, response_class=Response, openapi_extra=_body_doc(_CREATE))
    async def create(name: str, request: Request) -> Response:
        """Create a named subscription. One that exists with the same terms stays as it is; with others it is a 409."""
        fields = await _read_fields(request, _CREATE, {"stream": "visits"})
        fields["start"] = fields.pop("from", None)
        return reply_json(await anyio.to_thread.run_sync(lambda: verbs.create_subscription(name, **fields)))

    add_verb(routes, verbs, Verbs.drop_subscription)

    @routes.get("/v1/subscriptions/{name}/events", response_class=Response, openapi_extra=_EVENTS_DOC)
    async def receive(name: str, request: Request) -> Response:
        """Receive the next batch: `{"lease", "attempt", "timeout_ms", "cursor", "columns", "events": […], "member"}`.

        Each event goes to one member of the subscription. With `at-least-once` the batch is delivered again, with a
        higher `attempt`, unless its `lease` is acknowledged within the time-out; redelivered batches have the size that
        they had. Without an event within `wait` the batch is empty, and its lease is null.

        With `Accept: text/event-stream` batches are sent as server-sent events (`event: batch`) as long as the member
        holds fewer events than its `credit`. When the connection closes, what is not acknowledged goes to other members
        at once.
        """
        options = _read_options(request)
        limit = options["limit"] or DEFAULT_BATCH
        credit = options["credit"] or max(DEFAULT_CREDIT, limit)
        if not 1 <= limit <= MOST_BATCH:
            raise RequestError("parameter 'limit' is out of range", found=str(limit), expected=f"1 to {MOST_BATCH:,}")
        queue = subscriptions.queue(name)
        if wants_events(request):
            member = f"connection-{next(numbers)}-{secrets.token_hex(4)}"
            return reply_events(_deliver(runtime, request, queue, member, limit, credit))
        member = (request.query_params.get("member") or f"member-{secrets.token_hex(6)}")[:100]
        delivery = await _next(runtime, request, queue, member, limit, credit, read_wait(request))
        return reply_encoded(delivery.as_json(member))

    @routes.post("/v1/subscriptions/{name}/ack", response_class=Response, openapi_extra=_body_doc(_ACK))
    async def acknowledge(name: str, request: Request) -> Response:
        """Acknowledge batches, or some events of one: they are not delivered again, whichever member has them now.

        The acknowledgement is on disk when the reply is sent: `{"acknowledged": n}`, the number of events that were not
        acknowledged before.
        """
        fields = await _read_fields(request, _ACK, {"lease": "12.1.5f3a9c01"})
        leases, events = _read_leases(fields), _texts("events", fields.get("events"))
        count = await anyio.to_thread.run_sync(subscriptions.queue(name).acknowledge, leases, events, limiter=READING)
        return reply_json({"acknowledged": count})

    @routes.post("/v1/subscriptions/{name}/nack", response_class=Response, openapi_extra=_body_doc(_NACK))
    async def give_back(name: str, request: Request) -> Response:
        """Reject batches, which are delivered again immediately, to any member.

        `{"returned": n}` is the number of their events.
        """
        fields = await _read_fields(request, _NACK, {"lease": "12.1.5f3a9c01"})
        leases = _read_leases(fields)
        count = await anyio.to_thread.run_sync(subscriptions.queue(name).give_back, leases, limiter=READING)
        return reply_json({"returned": count})

    return routes


async def _next(
    runtime: Runtime, request: Request, queue: SubscriptionQueue, member: str, limit: int, credit: int, wait_s: float
) -> Delivery:
    """The next batch, or an empty one when the time is over."""
    deadline = time.monotonic() + wait_s
    while True:
        known = queue.notifier.count
        delivery = await anyio.to_thread.run_sync(queue.take, member, limit, credit, limiter=READING)
        if delivery is not None:
            if delivery.lease and await request.is_disconnected():
                queue.give_back([delivery.lease])
            return delivery
        left_s = deadline - time.monotonic()
        if left_s <= 0 or stopping(request, runtime) or await request.is_disconnected():
            return queue.nothing()
        await queue.notifier.wait_async(known, min(left_s, _pause_s(queue)))


async def _deliver(
    runtime: Runtime, request: Request, queue: SubscriptionQueue, member: str, limit: int, credit: int
) -> AsyncIterator[bytes]:
    queue.join(member)
    try:
        yield hello(None)
        heartbeat = Heartbeat()
        while not stopping(request, runtime):
            known = queue.notifier.count
            delivery = await anyio.to_thread.run_sync(queue.take, member, limit, credit, limiter=READING)
            if delivery is not None:
                yield message(delivery.as_json(member), event="batch")
                heartbeat.restart()
                continue
            if heartbeat.due():
                yield b": heartbeat\n\n"
            await queue.notifier.wait_async(known, _pause_s(queue))
    finally:
        queue.leave(member)  # whatever ends the connection, what it holds goes to others


def _pause_s(queue: SubscriptionQueue) -> float:
    wait_ms = queue.wait_ms()
    return LOOK_S if wait_ms is None else min(LOOK_S, wait_ms / 1000)


def _read_options(request: Request) -> dict[str, int | None]:
    for name in request.query_params:
        if name not in _EVENTS:
            raise RequestError(
                f"'{name}' is not a parameter of a subscription's events",
                expected=", ".join(_EVENTS),
                fix=did_you_mean(name, _EVENTS),
            )
    return {name: read_number(name, request.query_params.get(name)) for name in ("limit", "credit")}


async def _read_fields(request: Request, known: Mapping[str, str], example: dict[str, Any]) -> dict[str, Any]:
    fields = read_object(await read_body(request, _BODY_BYTES), RequestError, example)
    for name in fields:
        if name not in known:
            raise RequestError(
                f"'{name}' is not a field of this request", expected=", ".join(known), fix=did_you_mean(name, known)
            )
    for name in ("stream", "view", "guarantee", "where", "from", "timeout"):
        if fields.get(name) is not None and name in fields and not isinstance(fields[name], str):
            raise RequestError(f"'{name}' is not text", found=repr(fields[name])[:80])
    if not isinstance(fields.get("key") or {}, dict):
        raise RequestError("'key' is not an object", found=repr(fields["key"])[:80], expected='{"page": "/home"}')
    return fields


def _read_leases(fields: Mapping[str, Any]) -> list[str]:
    leases = _texts("leases", fields.get("leases"))
    single = fields.get("lease")
    if single is not None and not isinstance(single, str):
        raise RequestError("'lease' is not text", found=repr(single)[:80])
    if (leases is None) == (single is None):
        raise RequestError("a lease is missing", expected="`lease` or `leases`, as batches show them")
    return leases if leases is not None else [str(single)]


def _texts(name: str, value: Any) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise RequestError(f"'{name}' is not a list of texts", found=repr(value)[:80])
    return value
