"""JSON replies, the one shape of every failure, long-running replies with progress, and the routes on the path of
every event and answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

import anyio.to_thread
import orjson
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.errors import (
    HeadraceError,
    InternalError,
    MethodError,
    OverloadError,
    RequestError,
    RouteError,
    SlowError,
    TooLargeError,
    UnauthorizedError,
)
from headrace.spark.jobs import Job

JSON = "application/json"
RETRY_AFTER_S = "1"


def reply_json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON reply, encoded by orjson; answers change with every event, so they must not be cached."""
    return reply_encoded(orjson.dumps(content), status, headers)


def reply_encoded(content: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A reply of JSON that is encoded already."""
    return Response(content, status, headers={"cache-control": "no-store", **(headers or {})}, media_type=JSON)


def reply_error(error: HeadraceError, allow: str | None = None) -> Response:
    """The reply for a failure."""
    headers = {}
    if isinstance(error, OverloadError) or error.http_status == 503:
        headers["retry-after"] = RETRY_AFTER_S
    if isinstance(error, UnauthorizedError):
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, (TooLargeError, SlowError)):
        headers["connection"] = "close"  # else the rest of the body would be read and discarded
    if allow:
        headers["allow"] = allow
    return reply_json({"error": error.as_dict()}, error.http_status, headers)


def add_error_handlers(app: FastAPI) -> None:
    """Give every failure that reaches the framework the same JSON shape."""

    @app.exception_handler(HeadraceError)
    async def headrace_error(request: Request, error: HeadraceError) -> Response:
        return reply_error(error)

    @app.exception_handler(HTTPException)
    async def framework(request: Request, error: HTTPException) -> Response:
        path = request.scope["path"]
        if error.status_code == 404:
            return reply_error(RouteError(f"no endpoint has the path '{path}'", fix="/openapi.json lists them all"))
        if error.status_code == 405:
            allow = (error.headers or {}).get("Allow")
            return reply_error(
                MethodError(
                    f"'{path}' does not support {request.method}",
                    expected=allow,
                    fix="/openapi.json lists all endpoints",
                ),
                allow,
            )
        failure = RequestError(str(error.detail))
        return reply_json({"error": failure.as_dict()}, error.status_code)

    @app.exception_handler(RequestValidationError)
    async def validation(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return reply_error(
            RequestError(
                f"'{place}' has an invalid value", found=repr(first.get("input"))[:200], expected=str(first["msg"])
            )
        )


_SLASH = "\x1f"  # in the path of a request: a slash of a name. No name has a control character.


def whole_path(scope: Scope) -> str:
    """The path of a request, in which slashes that were sent as %2F do not separate its parts."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return str(scope["path"])
    return unquote(raw.decode("latin-1").replace("%2f", "%1F").replace("%2F", "%1F"))


def _names(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: of.replace(_SLASH, "/") if isinstance(of, str) else of for name, of in parameters.items()}


class NamedRoute(APIRoute):
    """A route whose parameters are names, which may have slashes: `whole_path` keeps these apart from the others."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        return match, {**child, "path_params": _names(child["path_params"])} if "path_params" in child else child


class PlainRoute(NamedRoute):
    """A route whose endpoint takes the path parameters and the request, and creates the response itself.

    It is documented as any other, but FastAPI's dependency injection, validation and serialization, more than half of
    the framework's cost, are skipped. Such a path must be that of no other route.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint = self.endpoint

        async def handle(request: Request) -> Response:
            reply: Response = await endpoint(**request.path_params, request=request)
            return reply

        return handle


class PlainRoutes:
    """The layer that calls the endpoints of plain routes without the framework; other requests go through it."""

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter]) -> None:
        self._app = app
        self._routes = [route for router in routers for route in router.routes if isinstance(route, PlainRoute)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope.get("path", ""), scope.get("method")
        for route in self._routes:
            if method in (route.methods or ()) and (match := route.path_regex.match(path)):
                scope["route"], scope["path_params"] = route, _names(match.groupdict())
                request = Request(scope, receive, send)
                try:
                    reply = await route.endpoint(**request.path_params, request=request)
                except HeadraceError as error:
                    # Its traceback refers to all that the request had in memory, until a garbage collection finds it.
                    reply = reply_error(error.with_traceback(None))
                await reply(scope, receive, send)
                return
        await self._app(scope, receive, send)


NDJSON = "application/x-ndjson"
CHECK_S = 0.5  # interval of progress lines, and of checks whether the client is still connected


async def reply_when_done(request: Request, work: Callable[[Job], dict[str, Any]]) -> Response:
    """The result of the work as JSON. With `Accept: application/x-ndjson`, lines: `{"progress": …}` while it runs, so
    that no connection is idle, then `{"answer": …}` or `{"error": …}`.
    """
    job = Job()
    if NDJSON in request.headers.get("accept", ""):
        task = asyncio.create_task(anyio.to_thread.run_sync(work, job))
        done, _ = await asyncio.wait([task], timeout=CHECK_S)
        if done and (failure := task.exception()):
            raise failure  # before the first line, so the reply can have the status of the error
        return StreamingResponse(_lines(task, job), media_type=NDJSON, headers={"cache-control": "no-store"})
    async with ended_with(request, job):
        return reply_json(await anyio.to_thread.run_sync(work, job))


@asynccontextmanager
async def ended_with(request: Request, job: Job) -> AsyncIterator[None]:
    """Cancel a job if the client disconnects before it ends."""

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(CHECK_S)
        await anyio.to_thread.run_sync(job.cancel)

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()


async def _lines(task: asyncio.Task[dict[str, Any]], job: Job) -> AsyncIterator[bytes]:
    try:
        while not (await asyncio.wait([task], timeout=CHECK_S))[0]:
            now = await anyio.to_thread.run_sync(job.progress)
            yield _line({"progress": {"done": now.done, "known": now.known, "unit": now.unit}})
        yield _line({"answer": task.result()})
    except HeadraceError as error:
        yield _line({"error": error.as_dict()})
    except Exception as error:
        yield _line({"error": InternalError(f"internal error: {type(error).__name__}").as_dict()})
        raise
    finally:
        if not task.done():  # the client has disconnected, so the result is ignored
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            job.cancel()


def _line(content: dict[str, Any]) -> bytes:
    return orjson.dumps(content) + b"\n"
