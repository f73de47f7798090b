"""The endpoint that leaves out events of a stream in Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from headrace.errors import RequestError
from headrace.web.body import read_body
from headrace.web.replies import NamedRoute, reply_json
from headrace.web.version_routes import describe_body, read_fields

if TYPE_CHECKING:
    from headrace.server.runtime import Runtime

_SMALL_BODY = 64 << 10
_SKIP = describe_body(
    to=("string", "where to go on: earliest, latest, a time, or offsets of partitions such as 0:42,1:300"),
    dry_run=("boolean", "only list the offsets that would be left out"),
)


def skip_routes(runtime: Runtime) -> APIRouter:
    """The endpoint, over a runtime."""
    routes = APIRouter(tags=["streams"], route_class=NamedRoute)

    @routes.post("/v1/streams/{stream}/skip", response_class=Response, openapi_extra=_SKIP)
    async def skip(stream: str, request: Request) -> Response:
        """Skip events of a Kafka stream, to continue after events were lost in Kafka.

        The reply lists the offsets by topic and partition, and the commit of the log that records them.
        """
        fields = read_fields(await read_body(request, _SMALL_BODY), to=str, dry_run=bool)
        if fields["to"] is None:
            raise RequestError("'to' is missing", expected="earliest, latest, a time or offsets")
        return reply_json(
            await run_in_threadpool(lambda: runtime.skip(stream, fields["to"], dry_run=bool(fields["dry_run"])))
        )

    return routes
