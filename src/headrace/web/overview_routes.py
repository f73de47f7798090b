"""Endpoints for streams, views, status, health, plan and apply."""

from __future__ import annotations

import orjson
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from headrace.api.server_verbs import ServerVerbs
from headrace.api.verbs import Verbs
from headrace.errors import RequestError
from headrace.web.body import read_body
from headrace.web.replies import NamedRoute, reply_json
from headrace.web.verb_routes import SMALL_BODY, add_verb, describe_body, route_of


def overview_routes(verbs: ServerVerbs) -> APIRouter:
    """The endpoints. Plain functions run in a thread: they read the store and files."""
    routes = APIRouter(tags=["workspace"], route_class=NamedRoute)
    add_verb(routes, verbs, Verbs.streams)

    @route_of(routes, Verbs.views)
    def list_views() -> Response:
        """All views: keys, columns, version, freshness, lane, rows per layer, audits, alarm, stalled or building.

        `lane` is `fused` if the view is updated while events are appended, `spark` if Spark jobs update it;
        `lane_reason` then gives the reason. Both are null while nothing updates the view. `logical` are the logical
        views: their SQL, columns, what they read, and the freshness of the stalest view that each is computed from.
        """
        return reply_json({"views": verbs.views(), "logical": verbs.logical_views()})

    add_verb(routes, verbs, Verbs.graph)
    add_verb(routes, verbs, Verbs.status)
    add_verb(routes, verbs, Verbs.plan)

    @route_of(routes, Verbs.apply, describe_body(Verbs.apply.parameters()))
    async def apply_plan(request: Request) -> Response:
        """Apply the definitions folder."""
        expect = _read_expect(await read_body(request, SMALL_BODY))
        return reply_json((await run_in_threadpool(verbs.apply, expect)).as_dict())

    @routes.get("/health", response_class=Response)
    def health() -> Response:
        """200 while the server works or is starting, 503 when it fails; drift is reported as a warning."""
        state = verbs.runtime.monitor.health()
        return reply_json(state, 503 if state.status == "failing" else 200)

    return routes


def _read_expect(body: bytes) -> str | None:
    try:
        value = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise RequestError(f"the body is not JSON: {error}", expected='such as {"expect": "…"}') from error
    expect = value.get("expect") if isinstance(value, dict) else value
    if expect is not None and not isinstance(expect, str):
        raise RequestError("'expect' is not text", found=repr(expect)[:80], expected="the fingerprint of a plan")
    return expect
