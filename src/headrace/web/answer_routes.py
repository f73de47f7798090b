"""Endpoints that answer questions about a view: its rows, and the events behind one cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace.api.shared_options import CELL, QUESTION
from headrace.api.verbs import Verbs
from headrace.errors import QuestionError, did_you_mean
from headrace.serve import explanation
from headrace.serve.explanation import CellQuestion
from headrace.serve.question import PARAMETERS, Question
from headrace.web.body import read_body, read_object
from headrace.web.replies import NamedRoute, PlainRoute, reply_encoded, reply_when_done
from headrace.web.verb_routes import route_of

if TYPE_CHECKING:
    from headrace.api.server_verbs import ServerVerbs
    from headrace.server.runtime import Runtime


def _query_parameters(key: str, descriptions: Mapping[str, str]) -> list[dict[str, Any]]:
    """OpenAPI of the query parameters of a question: `key.NAME`, described by `key`, and the others by name."""
    keys = {
        "name": "key",
        "in": "query",
        "style": "form",
        "explode": True,
        "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        "description": key,
    }
    others = [
        {"name": name, "in": "query", "schema": {"type": "string"}, "description": text}
        for name, text in descriptions.items()
    ]
    return [keys, *others]


_EXAMPLE = {"key": [{"page": "/home"}]}
ASK_DOC: dict[str, Any] = {
    "parameters": _query_parameters(
        r"`key.NAME=value` selects rows with this key; repeat it for several values; \N is NULL.",
        {name: QUESTION[name].about for name in PARAMETERS},
    )
}
LOOKUP_DOC: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "keys": {
                            "description": 'a list of keys, such as `[{"page": "/home"}]`: rows come in this order',
                            "type": "array",
                            "items": {"type": "object"},
                        },
                        "key": {
                            "description": "an object of keys and values (or lists of values), or a list of them",
                            "oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}],
                        },
                        **{name: {"description": QUESTION[name].about} for name in PARAMETERS},
                    },
                },
                "example": {"keys": [{"page": "/home"}, {"page": "/cart"}], "start": "-1h", "window": "1h"},
            }
        },
    }
}
_CELL = {name: each.about for name, each in CELL.items()} | {
    "limit": f"maximum number of events: default {explanation.DEFAULT_LIMIT}, at most {explanation.HIGHEST_LIMIT:,}",
    "cursor": "next_cursor of the previous reply",
}
_EXPLAIN_DOC: dict[str, Any] = {
    "parameters": _query_parameters(
        r"`key.NAME=value` for each key of the view; \N is NULL.",
        {name: _CELL[name] for name in explanation.PARAMETERS},
    )
}


def answer_routes(runtime: Runtime, max_body: int) -> APIRouter:
    """The endpoints, over a runtime."""
    routes = APIRouter(tags=["answers"], route_class=PlainRoute)

    async def reply_answer(question: Question, text: bytes, request: Request) -> Response:
        if question.as_of is not None:
            return await reply_when_done(request, lambda job: runtime.answering.answer(question, job).as_dict())
        # A change of threads takes longer than to answer from memory.
        cached = runtime.answering.ask_cached(question, text)
        if cached is not None:
            return reply_encoded(cached)
        return reply_encoded(await anyio.to_thread.run_sync(runtime.answering.ask_json, question, text))

    @routes.get("/v1/views/{view}", response_class=Response, openapi_extra=ASK_DOC)
    async def answer(view: str, request: Request) -> Response:
        """Query a view: rows, freshness and settled flags.

        With `version_as_of` or `timestamp_as_of` Spark computes the rows from the lake, which may take minutes. With
        `Accept: application/x-ndjson` the reply is then a sequence of lines: `{"progress": {"done", "known", "unit"}}`
        twice a second, and finally `{"answer": {…}}` or `{"error": {…}}`. Disconnecting cancels the query.
        """
        text = b"?" + request.scope["query_string"]
        recent = runtime.answering.recall(view, text)
        if recent is not None:
            return reply_encoded(recent)
        question = Question.from_text(view, request.query_params.multi_items())
        return await reply_answer(question, text, request)

    @routes.post(Verbs.ask.path, response_class=Response, openapi_extra=LOOKUP_DOC)
    async def lookup(view: str, request: Request) -> Response:
        """Query many keys of a view in one request.

        With `keys`, a list, the reply has every row of these keys, in their order, and `missing`: the keys that have no
        row. It has at most 10,000 rows, and takes `start`, `end`, `window`, `every`, `cumulate`, `zone`, `order`,
        `settled_only`, `corrections`, `version_as_of` and `timestamp_as_of`. With `key` it is a query as by GET.
        """
        text = await read_body(request, max_body)
        recent = runtime.answering.recall(view, text)
        if recent is not None:
            return reply_encoded(recent)
        fields = read_object(text, QuestionError, _EXAMPLE)
        if "keys" in fields:
            return await reply_answer(Question.lookup_of(view, fields.pop("keys"), **fields), text, request)
        for name in fields:
            if name not in ("key", *PARAMETERS):
                raise QuestionError(
                    f"'{name}' is not a parameter of a query",
                    expected=f"key, {', '.join(PARAMETERS)}",
                    fix=did_you_mean(name, ("key", *PARAMETERS)),
                )
        question = Question.of(view, **fields)
        return await reply_answer(question, text, request)

    return routes


def explain_routes(verbs: ServerVerbs) -> APIRouter:
    """The endpoint, over a runtime."""
    routes = APIRouter(tags=["answers"], route_class=NamedRoute)

    @route_of(routes, Verbs.explain, _EXPLAIN_DOC)
    async def find_events(view: str, request: Request) -> Response:
        """The events behind one cell, in order of arrival, with late events and corrections marked.

        Spark reads them from the lake, which takes from half a second to minutes. Disconnecting cancels the query. 429
        when two such queries are running, 503 while Spark is starting.
        """
        question = CellQuestion.from_text(view, request.query_params.multi_items())
        return await reply_when_done(request, lambda job: verbs.explain(question, job).as_dict())

    return routes
