"""Endpoints that answer questions to a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace.errors import QuestionError, did_you_mean
from headrace.serve.question import DEFAULT_LIMIT, HIGHEST_LIMIT, PARAMETERS, Question
from headrace.web.body import read_body, read_object
from headrace.web.parameters import asked_parameters
from headrace.web.progress import reply_when_done
from headrace.web.replies import reply_json
from headrace.web.route import PlainRoute

if TYPE_CHECKING:
    from headrace.server.runtime import Runtime

EXAMPLE = {"key": [{"page": "/home"}]}
_WHAT = {
    "by": "keys to group by, separated by commas; the others are merged. Empty: grand total",
    "start": "start, inclusive: ISO 8601, or relative to the newest event, such as -1h",
    "end": "end, exclusive; same formats as start",
    "window": "window size, such as 1h; all is one window from start to end",
    "every": "interval between window starts, such as 5m",
    "order": "which windows come first: oldest (default) or newest; within a window rows are ordered by key",
    "limit": f"maximum number of rows: default {DEFAULT_LIMIT:,}, at most {HIGHEST_LIMIT:,}",
    "cursor": "next_cursor of the previous reply; other parameters except limit must be the same",
    "version_as_of": "answer as of the first N commits of the log, computed from the lake",
    "timestamp_as_of": "answer as of a commit time, ISO 8601",
}
_ASK_DOC: dict[str, Any] = {
    "parameters": asked_parameters(
        r"`key.NAME=value` selects rows with this key; repeat it for several values; \N is NULL.",
        {name: _WHAT[name] for name in PARAMETERS},
    )
}
_LOOKUP_DOC: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "key": {
                            "description": "an object of keys and values (or lists of values), or a list of them",
                            "oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}],
                        },
                        **{name: {"description": _WHAT[name]} for name in PARAMETERS},
                    },
                },
                "example": {"key": [{"page": "/home"}, {"page": "/cart"}], "start": "-1h", "window": "1h"},
            }
        },
    }
}


def answer_routes(runtime: Runtime, max_body: int) -> APIRouter:
    """The endpoints, over a runtime."""
    routes = APIRouter(tags=["answers"], route_class=PlainRoute)

    def ask_now(question: Question) -> Response:
        return reply_json(runtime.ask(question).as_dict())

    async def ask(question: Question, request: Request) -> Response:
        if question.as_of is not None:
            return await reply_when_done(request, lambda job: runtime.ask(question, job).as_dict())
        return await anyio.to_thread.run_sync(ask_now, question)

    @routes.get("/v1/views/{view}", response_class=Response, openapi_extra=_ASK_DOC)
    async def answer(view: str, request: Request) -> Response:
        """Query a view: rows, freshness and settled flags.

        With `version_as_of` or `timestamp_as_of` Spark computes the rows from the lake, which may take minutes. With
        `Accept: application/x-ndjson` the reply is then a sequence of lines: `{"progress": {"done", "known", "unit"}}`
        twice a second, and finally `{"answer": {…}}` or `{"error": {…}}`. Disconnecting cancels the query.
        """
        question = Question.from_text(view, request.query_params.multi_items())
        return await ask(question, request)

    @routes.post("/v1/views/{view}/lookup", response_class=Response, openapi_extra=_LOOKUP_DOC)
    async def lookup(view: str, request: Request) -> Response:
        """Query many keys of a view in one request."""
        asked = read_object(await read_body(request, max_body), QuestionError, EXAMPLE)
        for name in asked:
            if name not in ("key", *PARAMETERS):
                raise QuestionError(
                    f"'{name}' is not a parameter of a question",
                    expected=f"key, {', '.join(PARAMETERS)}",
                    fix=did_you_mean(name, ("key", *PARAMETERS)),
                )
        question = Question.of(view, **asked)
        return await ask(question, request)

    return routes
