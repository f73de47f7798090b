"""Endpoints of tables: rows to upsert and to delete, questions by key, and the list."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import orjson
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from headrace.api.verbs import Verbs
from headrace.errors import QuestionError, RequestError
from headrace.ingest.formats.format_detection import FileLayout, Format
from headrace.ingest.row_deletions import deletions
from headrace.serve.json_values import encoder, key_value
from headrace.serve.question import Question
from headrace.server.composed_status import find_table, find_writable
from headrace.web.answer_routes import ASK_DOC, LOOKUP_DOC
from headrace.web.body import read_body, read_compression, read_layout, read_object, unpack_body
from headrace.web.ingest_routes import EVENTS_DOC
from headrace.web.meter import EVENT_COUNTS
from headrace.web.replies import NamedRoute, reply_json, reply_when_done
from headrace.web.verb_routes import add_verb

if TYPE_CHECKING:
    from headrace.api.server_verbs import ServerVerbs
    from headrace.define.model import Table
    from headrace.ingest.receiver import IngestReply

_KEYS = {"oneOf": [{"type": "object"}, {"type": "array"}]}
_DELETE_DOC: dict[str, Any] = {
    "parameters": [
        EVENTS_DOC["parameters"][0],
        {**ASK_DOC["parameters"][0], "description": "`key.NAME=value` for each column of the primary key."},
    ],
    "requestBody": {"content": {"application/json": {"schema": _KEYS}, "application/x-ndjson": {"schema": _KEYS}}},
}


def table_routes(verbs: ServerVerbs, max_body: int, question_bytes: int) -> APIRouter:
    """The endpoints."""
    routes = APIRouter(tags=["tables"], route_class=NamedRoute)

    async def take(table: str, body: bytes, layout: FileLayout, request: Request) -> Response:
        key = request.headers.get("idempotency-key")

        def write() -> IngestReply:
            return verbs.ingest(table, body, layout=layout, key=key, keep_bad=False).result()

        reply = await asyncio.shield(asyncio.ensure_future(anyio.to_thread.run_sync(write)))
        request.scope[EVENT_COUNTS] = (reply.accepted, len(reply.refused))
        return reply_json(reply.as_dict())

    add_verb(routes, verbs, Verbs.tables)

    @routes.post("/v1/tables/{table}/rows", response_class=Response, openapi_extra=EVENTS_DOC)
    async def upsert(table: str, request: Request) -> Response:
        """Upsert rows by primary key, in any format of events. They are on disk when the reply is sent.

        A row replaces the complete row of its key: columns that it omits become NULL. `"_deleted": true` deletes the
        row.
        """
        find_writable(verbs.runtime.lookup.catalog, table)
        layout, compression = read_layout(request), read_compression(request)
        body = await read_body(request, max_body)
        if compression:
            body = await run_in_threadpool(unpack_body, body, compression, max_body)
        return await take(table, bytes(body), layout, request)

    @routes.delete("/v1/tables/{table}/rows", response_class=Response, openapi_extra=_DELETE_DOC)
    async def delete(table: str, request: Request) -> Response:
        """Delete rows by primary key, given in the body (an object, an array, or one per line) or in the query."""
        declared = find_writable(verbs.runtime.lookup.catalog, table)
        keys = _typed(declared, _keys_of(request)) or _read_keys(declared, await read_body(request, max_body))
        may_repeat = "idempotency-key" in request.headers
        changes = deletions(table, declared.key, declared.event_time, keys, may_repeat=may_repeat)
        return await take(table, orjson.dumps(changes), FileLayout(Format.JSON), request)

    @routes.get("/v1/tables/{table}", response_class=Response, openapi_extra=ASK_DOC)
    async def rows(table: str, request: Request) -> Response:
        """The rows of a table, all or by key; parameters and reply are those of a view."""
        find_table(verbs.runtime.lookup.catalog, table)
        question = Question.from_text(table, request.query_params.multi_items())
        return await reply_answer(question, request)

    @routes.post("/v1/tables/{table}/lookup", response_class=Response, openapi_extra=LOOKUP_DOC)
    async def lookup(table: str, request: Request) -> Response:
        """The rows of many keys, in their order, and `missing`: the keys that have no row."""
        find_table(verbs.runtime.lookup.catalog, table)
        fields = read_object(await read_body(request, question_bytes), QuestionError, {"keys": [{"id": "u1"}]})
        keys = fields.pop("keys", None)
        question = Question.of(table, **fields) if keys is None else Question.lookup_of(table, keys, **fields)
        return await reply_answer(question, request)

    async def reply_answer(question: Question, request: Request) -> Response:
        if question.as_of is not None:
            return await reply_when_done(request, lambda job: verbs.ask(question, job).as_dict())
        answer = await anyio.to_thread.run_sync(verbs.ask, question)
        return reply_json(answer.as_dict())

    return routes


def _keys_of(request: Request) -> dict[str, str]:
    """The key in the query."""
    keys: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        column = name.removeprefix("key.")
        if column == name or column in keys:
            raise RequestError(
                f"'{name}' cannot delete rows", expected="key.NAME=value once for each column of the primary key",
                fix="several keys are in the body",
            )  # fmt: skip
        keys[column] = value
    return keys


def _typed(table: Table, key: dict[str, str]) -> dict[str, Any]:
    """The key in the query, as JSON has its values; what is not a column is refused later."""
    typed: dict[str, Any] = {}
    for field in table.fields:
        if field.name not in key:
            continue
        try:
            value = key_value(field.name, field.type, key[field.name])
        except QuestionError as error:
            raise RequestError(
                f"table '{table.name}': {error.message}", found=error.found, expected=error.expected,
                fix="nothing was deleted",
            ) from error  # fmt: skip
        encode = encoder(field.type)
        typed[field.name] = value if encode is None else encode(value)
    return key | typed


def _read_keys(table: Table, body: bytes | memoryview) -> Any:
    text = bytes(body).strip()
    if not text:
        example = orjson.dumps([dict.fromkeys(table.key, "…")]).decode()
        raise RequestError(
            f"the request names no row of table '{table.name}'",
            expected=f"{'&'.join(f'key.{name}=…' for name in table.key)} in the query, or keys in the body: {example}",
            fix="nothing was deleted",
        )
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return [orjson.loads(line) for line in text.splitlines() if line.strip()]
    except orjson.JSONDecodeError as error:
        raise RequestError(
            f"the keys are not JSON: {error}", found=repr(text[:60]), expected='such as [{"id": "u1"}]',
            fix="nothing was deleted",
        ) from error  # fmt: skip
