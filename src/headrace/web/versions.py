"""Endpoints for the versions of a view: list them, go back, refresh, and how the two layers compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from headrace.errors import RequestError
from headrace.web.body import read_body
from headrace.web.replies import reply_json

if TYPE_CHECKING:
    from headrace.plan.change import RollbackStep
    from headrace.server.runtime import Runtime

_SMALL_BODY = 64 << 10


def _doc(**fields: tuple[str, str]) -> dict[str, Any]:
    properties = {name: {"type": [of, "null"], "description": said} for name, (of, said) in fields.items()}
    content = {"application/json": {"schema": {"type": "object", "properties": properties}}}
    return {"requestBody": {"content": content}}


_ROLLBACK = _doc(
    to=("integer", "number of the version to go back to; by default the one that served before"),
    dry_run=("boolean", "only say what it would take"),
)
_REFRESH = _doc(full=("boolean", "build the view anew from the whole log, beside the version that serves"))


def version_routes(runtime: Runtime) -> APIRouter:
    """The endpoints, over a runtime."""
    routes = APIRouter(tags=["versions"])

    @routes.get("/v1/views/{view}/versions", response_class=Response)
    def versions(view: str) -> Response:
        """The versions of a view, newest first: state, horizon, commits, rows, events, which one it replaced.

        `changes` compares with that version, unless it is no longer kept: then `changed_from` is null.
        """
        return reply_json({"view": view, "versions": runtime.versions(view)})

    @routes.get("/v1/views/{view}/audits", response_class=Response)
    def audits(view: str) -> Response:
        """What came of comparing the batch layer with the speed layer, newest first: commits, rows, drift."""
        return reply_json({"view": view, "audits": runtime.audits(view)})

    @routes.post("/v1/views/{view}/rollback", response_class=Response, openapi_extra=_ROLLBACK)
    async def rollback(view: str, request: Request) -> Response:
        """Go back to an earlier version of a view.

        One that has its rows yet is brought up to date and serves; else it is an edit back to that definition. The
        reply says `how` and with how many events; what serves goes on until then.
        """
        asked = _read(await read_body(request, _SMALL_BODY), to=int, dry_run=bool)

        def go() -> RollbackStep:
            return runtime.rollback(view, asked["to"], dry_run=bool(asked["dry_run"]))

        return reply_json((await run_in_threadpool(go)).as_dict())

    @routes.post("/v1/views/{view}/refresh", response_class=Response, openapi_extra=_REFRESH)
    async def refresh(view: str, request: Request) -> Response:
        """Have the batch layer read again what the speed layer has, compare, and take over.

        The reply comes at once: version, horizon, and the commit up to which it will be taken over; the view's
        audits tell what came of it.
        """
        asked = _read(await read_body(request, _SMALL_BODY), full=bool)
        return reply_json(await run_in_threadpool(lambda: runtime.refresh(view, full=bool(asked["full"]))))

    return routes


def _read(body: bytes, **types: type) -> dict[str, Any]:
    """What a body says for each name; None where it says nothing."""
    try:
        said = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise RequestError(f"the body is not JSON: {error}", expected="an object, or nothing") from error
    if not isinstance(said, dict):
        raise RequestError("the body is not an object", found=repr(said)[:80], expected="an object, or nothing")
    for name, value in said.items():
        if name not in types:
            raise RequestError(f"'{name}' is not known here", expected=", ".join(types))
        if value is not None and type(value) is not types[name]:
            raise RequestError(f"'{name}' does not fit", found=repr(value)[:80], expected=types[name].__name__)
    return {name: said.get(name) for name in types}
