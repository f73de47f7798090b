"""Server-sent events: how they are written, and how long a reply of them lasts."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

import anyio
import orjson
from fastapi import Request
from starlette.responses import StreamingResponse

from headrace.errors import HeadraceError, InternalError

if TYPE_CHECKING:
    from headrace.server.runtime import Runtime

EVENT_STREAM = "text/event-stream"
HEARTBEAT_S = 10.0  # after which an idle reply gets a comment, so that both sides notice a lost connection
LOOK_S = 1.0  # how often a waiting reply looks whether the server stops
MOST_ENCODED = 32  # replies that are kept for other readers
RETRY_MS = 1_000  # after which browsers connect again
READING = anyio.CapacityLimiter(8)  # threads that read for followers


def wants_events(request: Request) -> bool:
    """Whether the client asks for server-sent events."""
    return EVENT_STREAM in request.headers.get("accept", "")


def stopping(request: Request, runtime: Runtime) -> bool:
    """Whether the server stops, so that replies must end."""
    return bool(request.app.state.stopping) or runtime.stopped.is_set()


def hello(cursor: str | None) -> bytes:
    """The first part of a reply; a client that connects again continues at this cursor."""
    ident = "" if cursor is None else f"id: {cursor}\n"
    return f"retry: {RETRY_MS}\n{ident}\n".encode()


def message(data: bytes, ident: bytes | None = None, event: str | None = None) -> bytes:
    """One event; the data is JSON, which has no line breaks."""
    head = b"" if ident is None else b"id: " + ident + b"\n"
    return head + (b"" if event is None else f"event: {event}\n".encode()) + b"data: " + data + b"\n\n"


def messages(lines: Iterable[bytes]) -> bytes:
    """Events of a stream; each has its cursor as id. It is the first value of their JSON."""
    start = len(b'{"cursor":"')
    return b"".join(b"id: %b\ndata: %b\n\n" % (line[start : line.index(b'"', start)], line) for line in lines)


_encoded: OrderedDict[int, tuple[tuple[bytes, ...], bytes]] = OrderedDict()


def encoded(lines: tuple[bytes, ...]) -> bytes:
    """The same, once for all readers that are sent the same lines. Called in the server's loop only."""
    entry = _encoded.get(id(lines))
    if entry is None or entry[0] is not lines:
        entry = _encoded[id(lines)] = (lines, messages(lines))
        if len(_encoded) > MOST_ENCODED:
            _encoded.popitem(last=False)
    return entry[1]


def failure(error: HeadraceError) -> bytes:
    """An error after the reply has begun; it is the last event."""
    return message(orjson.dumps({"error": error.as_dict()}), event="error")


class Heartbeat:
    """When a reply needs a sign of life."""

    def __init__(self) -> None:
        self._due = time.monotonic() + HEARTBEAT_S

    def restart(self) -> None:
        """Something was sent."""
        self._due = time.monotonic() + HEARTBEAT_S

    def due(self) -> bool:
        """Whether it is time; then the next one is due later."""
        if time.monotonic() < self._due:
            return False
        self.restart()
        return True


def reply_events(parts: AsyncIterator[bytes]) -> StreamingResponse:
    """A reply of server-sent events; an error on the way is its last event."""

    async def whole() -> AsyncIterator[bytes]:
        try:
            async for part in parts:
                yield part
        except HeadraceError as error:
            yield failure(error)
        except Exception:
            yield failure(InternalError("internal error", fix="the log of the server has the details"))
            raise

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(whole(), media_type=EVENT_STREAM, headers=headers)
