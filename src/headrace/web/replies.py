"""JSON replies, and the one shape of every failure: {"error": {code, message, found, expected, fix, where}}."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headrace.errors import (
    HeadraceError,
    MethodError,
    OverloadError,
    RequestError,
    RouteError,
    SlowError,
    TooLargeError,
    UnauthorizedError,
)

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
            RequestError(f"'{place}' does not fit", found=repr(first.get("input"))[:200], expected=str(first["msg"]))
        )
