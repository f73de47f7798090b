"""The endpoint that shows the events behind one cell of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace.serve.cell_question import DEFAULT_LIMIT, HIGHEST_LIMIT, PARAMETERS, CellQuestion
from headrace.web.parameters import asked_parameters
from headrace.web.progress import reply_when_done

if TYPE_CHECKING:
    from headrace.server.runtime import Runtime

_WHAT = {
    "at": "any time in the window: ISO 8601, or relative to the newest event, such as -1h; not without a window",
    "window": "window size, such as 1h; default: that of the view",
    "every": "interval between window starts, such as 5m",
    "limit": f"maximum number of events: default {DEFAULT_LIMIT}, at most {HIGHEST_LIMIT:,}",
    "cursor": "next_cursor of the previous reply",
}
_DOC: dict[str, Any] = {
    "parameters": asked_parameters(
        r"`key.NAME=value` for each key of the view; \N is NULL.",
        {name: _WHAT[name] for name in PARAMETERS},
    )
}


def explain_routes(runtime: Runtime) -> APIRouter:
    """The endpoint, over a runtime."""
    routes = APIRouter(tags=["answers"])

    @routes.get("/v1/views/{view}/explain", response_class=Response, openapi_extra=_DOC)
    async def explain(view: str, request: Request) -> Response:
        """The events behind one cell, in order of arrival, with late events and corrections marked.

        Spark reads them from the lake, which takes from half a second to minutes. Disconnecting cancels the query. 429
        when two such queries are running, 503 while Spark is starting.
        """
        asked = CellQuestion.from_text(view, request.query_params.multi_items())
        return await reply_when_done(request, lambda job: runtime.explain(asked, job).as_dict())

    return routes
