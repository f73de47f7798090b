"""Long-running replies: cancelled when the client disconnects, with progress as lines of JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
import orjson
from fastapi import Request
from starlette.responses import Response, StreamingResponse

from headrace.errors import HeadraceError, InternalError
from headrace.spark.jobs import Job
from headrace.web.replies import reply_json

NDJSON = "application/x-ndjson"
LOOK_S = 0.5  # how often it is looked how far the work is, and whether somebody still waits


async def reply_when_done(request: Request, work: Callable[[Job], dict[str, Any]]) -> Response:
    """What the work gives, as JSON. With `Accept: application/x-ndjson`, lines: `{"progress": …}` while it goes on,
    then `{"answer": …}` or `{"error": …}`, so that no connection falls silent.
    """
    job = Job()
    if NDJSON in request.headers.get("accept", ""):
        working = asyncio.create_task(anyio.to_thread.run_sync(work, job))
        done, _ = await asyncio.wait([working], timeout=LOOK_S)
        if done and (failure := working.exception()):
            raise failure  # soon enough for a status of its own
        return StreamingResponse(_lines(working, job), media_type=NDJSON, headers={"cache-control": "no-store"})
    async with ended_with(request, job):
        return reply_json(await anyio.to_thread.run_sync(work, job))


@asynccontextmanager
async def ended_with(request: Request, job: Job) -> AsyncIterator[None]:
    """Cancels a job when the client of a request goes away before it has ended."""

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(LOOK_S)
        await anyio.to_thread.run_sync(job.cancel)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


async def _lines(working: asyncio.Task[dict[str, Any]], job: Job) -> AsyncIterator[bytes]:
    try:
        while not (await asyncio.wait([working], timeout=LOOK_S))[0]:
            now = await anyio.to_thread.run_sync(job.progress)
            yield _line({"progress": {"done": now.done, "known": now.known, "unit": now.unit}})
        yield _line({"answer": working.result()})
    except HeadraceError as error:
        yield _line({"error": error.as_dict()})
    except Exception as error:
        yield _line({"error": InternalError(f"internal error: {type(error).__name__}").as_dict()})
        raise
    finally:
        if not working.done():  # the client has gone, and nobody will hear of how it ends
            working.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            job.cancel()


def _line(said: dict[str, Any]) -> bytes:
    return orjson.dumps(said) + b"\n"
