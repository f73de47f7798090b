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
    "at": "any time in the window, ISO 8601 or relative to the newest event (-1h); views without window take none",
    "window": "size of the window, such as 1h; the view's own if not said",
    "every": "how far apart windows start, such as 5m",
    "limit": f"most events of the reply: {DEFAULT_LIMIT} if not said, at most {HIGHEST_LIMIT:,}",
    "cursor": "next_cursor of the reply before",
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
        """The events of the log behind one cell, in the order of their arrival; late ones and corrections are marked.

        Spark finds them in the lake, which takes from half a second to minutes; a client that goes away ends it. 429
        when two such questions are being answered already, 503 while Spark starts.
        """
        asked = CellQuestion.from_text(view, request.query_params.multi_items())
        return await reply_when_done(request, lambda job: runtime.explain(asked, job).as_dict())

    return routes
