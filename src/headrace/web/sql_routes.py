"""The endpoint that runs a SELECT over the views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace.api.verbs import Verbs
from headrace.errors import SqlError, did_you_mean
from headrace.serve.sql.children import MOST_BYTES
from headrace.serve.sql.sql_answer import ARROW_STREAM
from headrace.serve.sql.view_queries import DEFAULT_LIMIT, HIGHEST_LIMIT
from headrace.spark.jobs import Job
from headrace.web.body import read_body, read_object
from headrace.web.replies import ended_with, reply_json
from headrace.web.verb_routes import route_of

if TYPE_CHECKING:
    from headrace.api.server_verbs import ServerVerbs

PARAMETERS = ("query", "limit")
EXAMPLE = {"query": "SELECT page, sum(hits) AS hits FROM traffic GROUP BY page ORDER BY hits DESC", "limit": 10}
_LIMIT = (
    f"maximum number of rows: default {DEFAULT_LIMIT:,}, at most {HIGHEST_LIMIT:,}, or all; all fails if the reply "
    f"is larger than {MOST_BYTES >> 20} MB"
)
_DOC: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["query"],
                    "properties": {
                        "query": {"type": "string", "description": "one SELECT statement; each view is a table"},
                        "limit": {"type": ["integer", "string"], "description": _LIMIT},
                    },
                },
                "example": EXAMPLE,
            }
        },
    }
}


def sql_routes(verbs: ServerVerbs, max_body: int) -> APIRouter:
    """The endpoint."""
    routes = APIRouter(tags=["answers"])

    @route_of(routes, Verbs.sql, _DOC)
    async def select(request: Request) -> Response:
        """Run a SELECT over the views: rows and freshness.

        `Accept: application/vnd.apache.arrow.stream` returns Arrow instead of JSON. Each query runs in a separate
        process with a timeout and a memory limit (settings `sql_*`); 429 when too many are running. For
        `traffic VERSION AS OF 12` and `traffic TIMESTAMP AS OF '2026-03-01T12:00:00Z'` Spark first computes the view
        from the lake, which may take minutes. Disconnecting cancels the query.
        """
        fields = _read_query(await read_body(request, max_body))
        as_arrow = ARROW_STREAM in request.headers.get("accept", "")

        job = Job()

        def run() -> Response:
            answer = verbs.sql(fields.get("query", ""), fields.get("limit"), job)
            if as_arrow:
                return Response(answer.as_arrow(), headers={"cache-control": "no-store"}, media_type=ARROW_STREAM)
            return reply_json(answer.as_dict())

        async with ended_with(request, job):
            return await anyio.to_thread.run_sync(run)

    return routes


def _read_query(body: bytes) -> dict[str, Any]:
    fields = read_object(body, SqlError, EXAMPLE)
    for name in fields:
        if name not in PARAMETERS:
            raise SqlError(
                f"'{name}' is not part of a query", expected=", ".join(PARAMETERS), fix=did_you_mean(name, PARAMETERS)
            )
    return fields
