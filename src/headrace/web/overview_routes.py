"""Endpoints for streams, views, status, health, plan and apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from headrace.errors import RequestError
from headrace.web.body import read_body
from headrace.web.replies import NamedRoute, reply_json

if TYPE_CHECKING:
    from headrace.server.runtime import Runtime

_SMALL_BODY = 64 << 10
_APPLY_DOC: dict[str, Any] = {
    "requestBody": {
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "expect": {
                            "type": ["string", "null"],
                            "description": "fingerprint of the plan to apply; 409 if the plan has changed",
                        }
                    },
                }
            }
        }
    }
}


def overview_routes(runtime: Runtime) -> APIRouter:
    """The endpoints, over a runtime. Plain functions run in a thread: they read the store and files."""
    routes = APIRouter(tags=["workspace"], route_class=NamedRoute)

    @routes.get("/v1/streams", response_class=Response)
    def streams() -> Response:
        """All streams: fields, rates, dead letters, backlog."""
        return reply_json({"streams": runtime.streams()})

    @routes.get("/v1/views", response_class=Response)
    def views() -> Response:
        """All views: keys, columns, version, freshness, lane, rows per layer, audits, alarm, stalled or building.

        `lane` is `fused` if the view is updated while events are appended, `spark` if Spark jobs update it;
        `lane_reason` then gives the reason. Both are null while nothing updates the view. `logical` are the logical
        views: their SQL, columns, what they read, and the freshness of the stalest view that each is computed from.
        """
        return reply_json({"views": runtime.views(), "logical": runtime.logical_views()})

    @routes.get("/v1/graph", response_class=Response)
    def graph() -> Response:
        """The dependencies: all streams, tables, views, sinks and alerts, each after those that it reads.

        Each has `kind`, `reads` (names), `detail`, `events_per_second`, `rows`, `freshness_ms`, `freshness_reason` and
        `problem`.
        """
        return reply_json(runtime.graph())

    @routes.get("/v1/status", response_class=Response)
    def status() -> Response:
        """State of the server, streams and views."""
        return reply_json(runtime.status())

    @routes.post("/v1/plan", response_class=Response)
    def plan() -> Response:
        """What `apply` would change. Executes the Python definition files."""
        return reply_json(runtime.plan().as_dict())

    @routes.post("/v1/apply", response_class=Response, openapi_extra=_APPLY_DOC)
    async def apply(request: Request) -> Response:
        """Apply the definitions folder."""
        expect = _read_expect(await read_body(request, _SMALL_BODY))
        return reply_json((await run_in_threadpool(runtime.apply, expect)).as_dict())

    @routes.get("/health", response_class=Response)
    def health() -> Response:
        """200 while the server works or is starting, 503 when it fails; drift is reported as a warning."""
        state = runtime.monitor.health()
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
