"""Endpoints for dead letters, a module as every group of endpoints: list, counts by reason, one letter, replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from headrace.lake.dead_letters import DEFAULT_LIMIT, MOST_LIMIT
from headrace.web.replies import NamedRoute, reply_json

if TYPE_CHECKING:
    from headrace.server.runtime import Runtime

_LARGEST = (1 << 62) - 1
Limit = Annotated[int, Query(ge=1, le=MOST_LIMIT, description=f"maximum number of dead letters, at most {MOST_LIMIT}")]
Cursor = Annotated[int | None, Query(ge=0, le=_LARGEST, description="next_cursor of the previous reply")]
Reason = Annotated[str | None, Query(description="only reasons that contain this text (case-insensitive)")]
ReplayCursor = Annotated[str | None, Query(description="cursor of the previous reply; none starts with the oldest")]
DryRun = Annotated[bool, Query(description="only count how many can be parsed now")]
Position = Annotated[int, Path(ge=0, le=_LARGEST, description="of the dead letter, as a page shows it")]


def dead_letter_routes(runtime: Runtime) -> APIRouter:
    """The endpoints, over a runtime. Plain functions run in a thread: they read files."""
    routes = APIRouter(tags=["dead letters"], route_class=NamedRoute)

    @routes.get("/v1/streams/{stream}/dead-letters", response_class=Response)
    def page(stream: str, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None, reason: Reason = None) -> Response:
        """Dead letters of a stream, newest first: position, arrival, reason and first bytes.

        Of a derived stream or a view: the rows that it leaves out.
        """
        return reply_json(runtime.dead_letters(stream).page(limit, cursor, reason))

    @routes.get("/v1/streams/{stream}/dead-letters/reasons", response_class=Response)
    def reasons(stream: str) -> Response:
        """Number of dead letters per reason (without values), with the newest of each."""
        return reply_json({"reasons": runtime.dead_letters(stream).reasons()})

    @routes.post("/v1/streams/{stream}/dead-letters/replay", response_class=Response)
    def replay(stream: str, cursor: ReplayCursor = None, dry_run: DryRun = False) -> Response:
        """Parse a batch of dead letters again. Those that can now be parsed become events, exactly once.

        Repeat with the `cursor` of the reply until it is null. For a derived stream or a view, it rebuilds the views
        with the keys that were missing and are in the tables now; `views` has their new versions.
        """
        return reply_json(runtime.dead_letters(stream).replay(cursor, dry_run=dry_run))

    @routes.get("/v1/streams/{stream}/dead-letters/{position}", response_class=Response)
    def show(stream: str, position: Position) -> Response:
        """One complete dead letter. Bytes that are not UTF-8 are escaped; `base64` then has the exact bytes."""
        return reply_json(runtime.dead_letters(stream).show(position))

    return routes
