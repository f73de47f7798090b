"""Endpoints for alerts: list, one, silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from headrace.errors import DefinitionError, RequestError
from headrace.language.durations import parse_duration
from headrace.web.body import read_body
from headrace.web.replies import NamedRoute, reply_json
from headrace.web.version_routes import describe_body, read_fields

if TYPE_CHECKING:
    from headrace.server.runtime import Runtime

_SMALL_BODY = 64 << 10
_SILENCE = describe_body(
    **{
        "for": ("string", "how long, such as `2h`"),
        "values": ("object", 'only incidents whose row has these values, such as `{"page": "/home"}`'),
        "reason": ("string", "the reason, shown with the silence"),
    }
)


def alert_routes(runtime: Runtime) -> APIRouter:
    """The endpoints, over a runtime."""
    routes = APIRouter(tags=["alerts"], route_class=NamedRoute)

    @routes.get("/v1/alerts", response_class=Response)
    def alerts() -> Response:
        """All alerts: condition, state, open incidents with the row that fired, resolved incidents, silences."""
        return reply_json({"alerts": runtime.alerts()})

    @routes.post("/v1/alerts/{alert}/silences", response_class=Response, openapi_extra=_SILENCE)
    async def silence(alert: str, request: Request) -> Response:
        """Send no notifications for some time, about all incidents of an alert or those whose row has some values."""
        body = await read_body(request, _SMALL_BODY)
        fields = read_fields(body, **{"for": str, "values": dict, "reason": str})
        for_ms = _duration(fields["for"])
        silence_status = await run_in_threadpool(
            lambda: runtime.silence(alert, for_ms, fields["values"] or {}, fields["reason"] or "")
        )
        return reply_json(silence_status)

    @routes.delete("/v1/alerts/{alert}/silences", response_class=Response)
    def end_all(alert: str) -> Response:
        """End all silences of an alert."""
        return reply_json({"ended": runtime.end_silence(alert)})

    @routes.delete("/v1/alerts/{alert}/silences/{silence}", response_class=Response)
    def end(alert: str, silence: str) -> Response:
        """End a silence."""
        return reply_json({"ended": runtime.end_silence(alert, silence)})

    return routes


def _duration(text: Any) -> int:
    if text is None:
        raise RequestError("'for' is missing", expected="how long the silence lasts, such as 2h")
    try:
        return parse_duration(text)
    except DefinitionError as error:
        raise RequestError(f"'for': {error.message}", found=error.found, expected=error.expected) from error
