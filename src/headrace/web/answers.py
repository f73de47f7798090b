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
    "by": "keys to keep, separated by commas; the others are merged. Empty: the grand total",
    "start": "closed bound, ISO 8601 or relative to the newest event (-1h)",
    "end": "open bound, of the same forms",
    "window": "size of the windows, such as 1h; all is one window over all time between start and end",
    "every": "how far apart windows start, such as 5m",
    "order": "which windows come first: oldest, as without it, or newest; keys are in ascending order within a window",
    "limit": f"most rows of the reply: {DEFAULT_LIMIT:,} if not said, at most {HIGHEST_LIMIT:,}",
    "cursor": "next_cursor of the reply before; the rest of the question must be the same, but for the limit",
    "version_as_of": "how many commits are to be in the answer: what the view said then, computed from the lake",
    "timestamp_as_of": "the same by the time of a commit, ISO 8601",
}
_ASK_DOC: dict[str, Any] = {
    "parameters": asked_parameters(
        r"`key.NAME=value` keeps rows with this key; given twice it means either; \N is NULL.",
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
                            "description": "one object of key: value (or a list of values), or a list of such objects",
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
        """Rows of a view, with how fresh and how complete they are.

        About the past Spark computes them from the lake, which may take minutes: with `Accept: application/x-ndjson`
        the reply is lines, `{"progress": {"done", "known", "unit"}}` twice a second, and at the end `{"answer": {…}}`
        or `{"error": {…}}`. A client that goes away ends the work.
        """
        question = Question.from_text(view, request.query_params.multi_items())
        return await ask(question, request)

    @routes.post("/v1/views/{view}/lookup", response_class=Response, openapi_extra=_LOOKUP_DOC)
    async def lookup(view: str, request: Request) -> Response:
        """The same question for many keys at once, as JSON."""
        asked = read_object(await read_body(request, max_body), QuestionError, EXAMPLE)
        for name in asked:
            if name not in ("key", *PARAMETERS):
                raise QuestionError(
                    f"'{name}' is not part of a question",
                    expected=f"key, {', '.join(PARAMETERS)}",
                    fix=did_you_mean(name, ("key", *PARAMETERS)),
                )
        question = Question.of(view, **asked)
        return await ask(question, request)

    return routes
