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
