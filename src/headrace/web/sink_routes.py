"""Endpoints for sinks: list, pause, resume, retry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.responses import Response

from headrace.web.replies import NamedRoute, reply_json

if TYPE_CHECKING:
    from headrace.server.runtime import Runtime


def sink_routes(runtime: Runtime) -> APIRouter:
    """The endpoints, over a runtime."""
    routes = APIRouter(tags=["sinks"], route_class=NamedRoute)

    @routes.get("/v1/sinks", response_class=Response)
    def sinks() -> Response:
        """All sinks: source, connector, options without secrets, state, rows, errors, lag.

        `state` is `running`, `waiting` while a view is built, `stalled` with a `reason`, or `paused`. `lag_s` is for
        how long the destination has not had all changes.
        """
        return reply_json({"sinks": runtime.sinks()})

    @routes.post("/v1/sinks/{sink}/pause", response_class=Response)
    def pause(sink: str) -> Response:
        """Stop sending after the batch under way, until `resume`, also over restarts."""
        return reply_json(runtime.change_sink(sink, "pause"))

    @routes.post("/v1/sinks/{sink}/resume", response_class=Response)
    def resume(sink: str) -> Response:
        """Resume a paused sink."""
        return reply_json(runtime.change_sink(sink, "resume"))

    @routes.post("/v1/sinks/{sink}/retry", response_class=Response)
    def retry(sink: str) -> Response:
        """Retry a stalled sink immediately."""
        return reply_json(runtime.change_sink(sink, "retry"))

    return routes
