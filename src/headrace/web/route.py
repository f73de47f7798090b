"""Routes on the path of every event and answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any
from urllib.parse import unquote

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.errors import HeadraceError
from headrace.web.replies import reply_error

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
