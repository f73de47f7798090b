"""The routes of verbs whose requests and replies are plain JSON, made from their declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from functools import partial
from inspect import Parameter as Argument
from inspect import Signature
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from headrace.api.declaration import HttpParameter, Verb
from headrace.api.verbs import Verbs
from headrace.errors import RequestError
from headrace.web.body import read_body
from headrace.web.replies import NamedRoute, reply_json

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
SMALL_BODY = 64 << 10
JSON_TYPES: dict[type, str] = {str: "string", int: "integer", bool: "boolean", dict: "object"}
PYTHON_TYPES: dict[str, Any] = {
    "str": str,
    "str | None": str | None,
    "int": int,
    "int | None": int | None,
    "bool": bool,
}


def verb_routes(workspace: Verbs, tag: str, *verbs: Verb[..., Any]) -> APIRouter:
    """The endpoints of some verbs of a workspace."""
    routes = APIRouter(tags=[tag], route_class=NamedRoute)
    for verb in verbs:
        add_verb(routes, workspace, verb)
    return routes


def route_of(
    routes: APIRouter, verb: Verb[..., Any], doc: dict[str, Any] | None = None
) -> Callable[[Endpoint], Endpoint]:
    """Decorate the endpoint of a verb whose request or reply is not plain JSON; `doc` is its OpenAPI."""
    name = verb.title or verb.name
    return routes.api_route(verb.path, methods=[verb.method], name=name, response_class=Response, openapi_extra=doc)


def add_verb(routes: APIRouter, workspace: Verbs, verb: Verb[..., Any]) -> None:
    """Add the endpoint of a verb."""
    declared: Any = verb.request
    in_body: dict[str, HttpParameter] = {}
    arguments = [Argument("request", Argument.KEYWORD_ONLY, annotation=Request)]
    for each in fields(declared):
        in_path = f"{{{each.name}}}" in verb.path
        if in_path or verb.in_query:
            arguments.append(_argument(each, in_path=in_path))
        else:
            in_body[each.name] = each.metadata["http"]

    async def endpoint(request: Request, **values: Any) -> Response:
        if in_body:
            values |= read_body_fields(await read_body(request, SMALL_BODY), in_body)
        value = await run_in_threadpool(partial(workspace.invoke, verb, **values))
        return reply_json(verb.reply.show(value, values))

    endpoint.__name__ = verb.title or verb.name
    endpoint.__doc__ = verb.text
    # FastAPI reads the parameters and their documentation from it.
    endpoint.__signature__ = Signature(arguments)  # type: ignore[attr-defined]
    extra = describe_body(in_body) if in_body else None
    routes.add_api_route(verb.path, endpoint, methods=[verb.method], response_class=Response, openapi_extra=extra)


def _argument(field: Field[Any], *, in_path: bool) -> Argument:
    """The argument of an endpoint for a field in the path or the query."""
    http, annotation = field.metadata.get("http"), PYTHON_TYPES[str(field.type)]
    if http is not None:
        place = Path if in_path else Query
        annotation = Annotated[annotation, place(ge=http.least, le=http.most, description=http.about)]
    default = Argument.empty if field.default is MISSING else field.default
    return Argument(field.name, Argument.KEYWORD_ONLY, annotation=annotation, default=default)


def describe_body(parameters: Mapping[str, HttpParameter]) -> dict[str, Any]:
    """The OpenAPI description of a JSON body with these fields."""
    properties = {
        each.name or name: {"type": [JSON_TYPES[each.kind], "null"], "description": each.about}
        for name, each in parameters.items()
    }
    content = {"application/json": {"schema": {"type": "object", "properties": properties}}}
    return {"requestBody": {"content": content}}


def read_body_fields(body: bytes, parameters: Mapping[str, HttpParameter]) -> dict[str, Any]:
    """The fields of a JSON body, by their names in the request; those that it does not have are left out."""
    try:
        content = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise RequestError(f"the body is not JSON: {error}", expected="an object, or nothing") from error
    if not isinstance(content, dict):
        raise RequestError("the body is not an object", found=repr(content)[:80], expected="an object, or nothing")
    known = {each.name or name: (name, each) for name, each in parameters.items()}
    for name, value in content.items():
        if name not in known:
            raise RequestError(f"'{name}' is not a parameter", expected=", ".join(known))
        kind = known[name][1].kind
        if value is not None and type(value) is not kind:
            raise RequestError(f"'{name}' has the wrong type", found=repr(value)[:80], expected=kind.__name__)
    values: dict[str, Any] = {}
    for http_name, (name, parameter) in known.items():
        value = content.get(http_name)
        if value is not None:
            values[name] = parameter.read(value) if parameter.read else value
        elif parameter.needed:
            raise RequestError(f"'{http_name}' is missing", expected=parameter.needed)
    return values
