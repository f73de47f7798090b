"""Receives a large body directly into memory that its events are then written to disk from.

Through the HTTP parser, each byte would be copied five times, in pieces of some kilobytes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from headrace.ingest.memory import allocate

if TYPE_CHECKING:
    from headrace.web.protocol import LimitedProtocol


class BodyReceiver(asyncio.BufferedProtocol):
    """Takes the place of a connection's protocol until the body is complete, and not a byte longer."""

    def __init__(self, connection: LimitedProtocol, size: int, beginning: bytes | bytearray) -> None:
        self.received = len(beginning)
        self._connection = connection
        self._body = allocate(size)
        self._body[: self.received] = beginning
        self._complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._attach(self)

    async def wait(self, timeout_s: float) -> memoryview | None:
        """The body; None if it is not complete in time. Raises ClientDisconnect if the connection ends before."""
        done, _ = await asyncio.wait([self._complete], timeout=max(0.0, timeout_s))
        if not done:
            return None
        self._complete.result()
        return self._body

    def stop(self) -> None:
        """Give the connection back; the rest of an incomplete body would be taken for a request."""
        if not self._complete.done():
            self._complete.cancel()
            self._attach(self._connection)

    # Called by the event loop

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._body[self.received :]

    def buffer_updated(self, nbytes: int) -> None:
        self.received += nbytes
        if self.received == len(self._body) and not self._complete.done():
            self._attach(self._connection)
            self._connection.end_body()
            self._complete.set_result(None)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)
        if not self._complete.done():
            self._complete.set_exception(ClientDisconnect())

    def _attach(self, protocol: asyncio.BaseProtocol) -> None:
        """Let a protocol receive what comes next. uvloop looks at its kind only when reading begins."""
        transport, flow = self._connection.transport, self._connection.flow
        if transport.is_closing():
            return  # `connection_lost` follows
        flow.pause_reading()
        transport.set_protocol(protocol)
        flow.resume_reading()
