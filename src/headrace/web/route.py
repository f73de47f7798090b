"""Routes on the path of every event and answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response


class PlainRoute(APIRoute):
    """A route whose endpoint takes the path parameters and the request, and creates the response itself.

    It is documented as any other, but FastAPI's dependency injection, validation and serialization, more than half of
    the framework's cost, are skipped.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint = self.endpoint

        async def handle(request: Request) -> Response:
            reply: Response = await endpoint(**request.path_params, request=request)
            return reply

        return handle
