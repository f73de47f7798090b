"""Routes on the path of every event and answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.errors import HeadraceError
from headrace.web.replies import reply_error


class PlainRoute(APIRoute):
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
                scope["route"], scope["path_params"] = route, match.groupdict()
                request = Request(scope, receive, send)
                try:
                    reply = await route.endpoint(**request.path_params, request=request)
                except HeadraceError as error:
                    # Its traceback refers to all that the request had in memory, until a garbage collection finds it.
                    reply = reply_error(error.with_traceback(None))
                await reply(scope, receive, send)
                return
        await self._app(scope, receive, send)
