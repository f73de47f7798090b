"""Endpoints for the versions of a view: list, rollback, refresh, audits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from headrace.errors import RequestError
from headrace.web.body import read_body
from headrace.web.replies import NamedRoute, reply_json

if TYPE_CHECKING:
    from headrace.plan.planned_change import RollbackStep
    from headrace.server.runtime import Runtime

_SMALL_BODY = 64 << 10


def describe_body(**fields: tuple[str, str]) -> dict[str, Any]:
    """The OpenAPI description of a JSON body with these fields: type and meaning of each."""
    properties = {
        name: {"type": [of, "null"], "description": description} for name, (of, description) in fields.items()
    }
    content = {"application/json": {"schema": {"type": "object", "properties": properties}}}
    return {"requestBody": {"content": content}}


_ROLLBACK = describe_body(
    to=("integer", "version to roll back to; default: the previous one"),
    dry_run=("boolean", "only report what it would do"),
)
_REFRESH = describe_body(
    full=("boolean", "rebuild the view from the whole log; the current version serves until then"),
    tables=(
        "string",
        "`now`: join all events so far to tables as they are now; `recorded`: again as they were; "
        "`missing`: as they were, but keys that were missing as they are now",
    ),
)


def version_routes(runtime: Runtime) -> APIRouter:
    """The endpoints, over a runtime."""
    routes = APIRouter(tags=["versions"], route_class=NamedRoute)

    @routes.get("/v1/views/{view}/versions", response_class=Response)
    def versions(view: str) -> Response:
        """The versions of a view, newest first: state, lane, horizon, commits, rows, events, and what it replaced.

        `changes` lists the differences from the replaced version; `changed_from` is null if that is no longer stored.
        `lane` is `fused` or `spark`, with the `lane_reason`, or null if nothing updates the version.
        """
        return reply_json({"view": view, "versions": runtime.versions(view)})

    @routes.get("/v1/views/{view}/audits", response_class=Response)
    def audits(view: str) -> Response:
        """Comparisons of the batch layer with the speed layer, newest first: commits, rows, drift."""
        return reply_json({"view": view, "audits": runtime.audits(view)})

    @routes.post("/v1/views/{view}/rollback", response_class=Response, openapi_extra=_ROLLBACK)
    async def rollback(view: str, request: Request) -> Response:
        """Roll a view back to an earlier version.

        If its rows are still stored, it catches up and then serves; else the view is edited back to its definition.
        The reply gives `how` and the number of events to read. The current version serves until then.
        """
        fields = read_fields(await read_body(request, _SMALL_BODY), to=int, dry_run=bool)

        def go() -> RollbackStep:
            return runtime.rollback(view, fields["to"], dry_run=bool(fields["dry_run"]))

        return reply_json((await run_in_threadpool(go)).as_dict())

    @routes.post("/v1/views/{view}/refresh", response_class=Response, openapi_extra=_REFRESH)
    async def refresh(view: str, request: Request) -> Response:
        """Start a refresh: the batch layer reads the commits of the speed layer again, compares, and replaces them.

        The reply comes at once with version, horizon and the commit up to which rows are replaced. The audits of the
        view show the result. A view over a table, which `over` names, is computed again from all rows of the table
        and compared; with `full` it is rebuilt from them.
        """
        fields = read_fields(await read_body(request, _SMALL_BODY), full=bool, tables=str)
        full, tables = bool(fields["full"]), fields["tables"]
        return reply_json(await run_in_threadpool(lambda: runtime.refresh(view, full=full, tables=tables)))

    return routes


def read_fields(body: bytes, **types: type) -> dict[str, Any]:
    """The fields of a JSON body by name; None for those that it does not have."""
    try:
        fields = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise RequestError(f"the body is not JSON: {error}", expected="an object, or nothing") from error
    if not isinstance(fields, dict):
        raise RequestError("the body is not an object", found=repr(fields)[:80], expected="an object, or nothing")
    for name, value in fields.items():
        if name not in types:
            raise RequestError(f"'{name}' is not a parameter", expected=", ".join(types))
        if value is not None and type(value) is not types[name]:
            raise RequestError(f"'{name}' has the wrong type", found=repr(value)[:80], expected=types[name].__name__)
    return {name: fields.get(name) for name in types}
