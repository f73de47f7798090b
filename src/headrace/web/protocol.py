"""Connections: limits on their number and on the time and size of headers; large bodies are received without copies."""

from __future__ import annotations

import asyncio
import http
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import httptools
import orjson
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from headrace.errors import HeaderError, HeadraceError, OverloadError, RequestError, SlowError
from headrace.ingest.line_buffers import allocate

if TYPE_CHECKING:
    pass


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


HEADER_BYTES = 64 << 10
LINE_BYTES = len(": \r\n")  # of a header, besides its name and value
RETRY_AFTER_S = 5
RECEIVE_BODY = "headrace.receive_body"  # in the scope of a request: `LimitedProtocol._receive_body` for it


class LimitedProtocol(HttpToolsProtocol):
    """A connection that is refused when there are too many, or when its headers are too slow or too long.

    These requests do not reach the application; the reply has the same error shape.
    """

    def __init__(self, most_connections: int, headers_s: float, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._most_connections = most_connections
        self._headers_s = headers_s
        self._deadline: asyncio.TimerHandle | None = None
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._most_connections:
            self._refuse(
                OverloadError(
                    "the server has too many connections",
                    found=f"{len(self.connections) - 1:,} that are open",
                    expected=f"at most {self._most_connections:,} (setting max_connections)",
                    fix="try again in a moment; close connections that are not used",
                )
            )
        else:
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = 0
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        # The parser reports a header only when it is complete, so it would buffer an endless one.
        self._header_bytes += len(data)
        if self._deadline is not None and self._header_bytes > HEADER_BYTES:
            self._refuse_headers()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        # One read may bring more than the limit, and all of it complete.
        size = len(self.url) + sum(len(name) + len(value) + LINE_BYTES for name, value in self.headers)
        if size > HEADER_BYTES:
            self._refuse_headers()
        if not self.transport.is_closing():
            super().on_headers_complete()
            cast("dict[str, Any]", self.scope)[RECEIVE_BODY] = partial(self._receive_body, self.cycle)

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.transport.is_closing():
            super().on_message_complete()

    def _refuse_headers(self) -> None:
        expected = f"at most {HEADER_BYTES:,} bytes, the path included"
        self._refuse(HeaderError("the headers are too long", expected=expected))

    def _receive_body(self, cycle: RequestResponseCycle, size: int) -> BodyReceiver | None:
        """Receive a body of this size without the parser; None if it is complete already, or cannot be expected."""
        if not cycle.more_body or cycle.waiting_for_100_continue or cycle.disconnected or self.transport.is_closing():
            return None
        beginning, cycle.body = cycle.body, bytearray()
        return BodyReceiver(self, size, beginning)

    def end_body(self) -> None:
        """A body was received without the parser. That one still expects it, so the next request gets another."""
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as its base class does
        self.on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(RequestError("not an HTTP/1.1 request"))

    def _expect_headers(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._headers_s, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        self._refuse(SlowError("the headers were not received", expected=f"all of them within {self._headers_s:g} s"))

    def _refuse(self, error: HeadraceError) -> None:
        """Send the error and close at once; the rest of the request is not read."""
        self._stop_waiting()
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.close()  # another reply is being written
            return
        body = orjson.dumps({"error": error.as_dict()})
        status = http.HTTPStatus(error.http_status)
        head = [f"HTTP/1.1 {status.value} {status.phrase}", "content-type: application/json", "connection: close"]
        if isinstance(error, OverloadError):
            head.append(f"retry-after: {RETRY_AFTER_S}")
        head += [f"content-length: {len(body)}", "", ""]
        self.transport.write("\r\n".join(head).encode() + body)
        self.transport.close()
