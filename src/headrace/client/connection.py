"""One connection to an HTTP server: writes a request and reads its reply.

http.client would load the package `email` to read five headers: a fifth of the modules of a quick command.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import httptools

BLOCK_BYTES = 256 << 10


class ReplyError(ConnectionError):
    """The connection ended before the reply was complete, or the reply is not HTTP."""


class Connection:
    """A connection that has one request at a time."""

    def __init__(self, host: str, port: int, timeout: float, *, is_secure: bool) -> None:
        # As text, a host would be encoded by three more modules.
        address: Any = (host.encode() if host.isascii() else host, port)
        self._socket = socket.create_connection(address, timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_secure:
            import ssl  # takes 0.02 s to import, and most servers are on this machine

            self._socket = ssl.create_default_context().wrap_socket(self._socket, server_hostname=host)

    def settimeout(self, timeout: float | None) -> None:
        """Set the timeout of each wait."""
        self._socket.settimeout(timeout)

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    @property
    def has_ended(self) -> bool:
        """Whether the server has closed the idle connection: then it is readable."""
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(0))

    def exchange(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes | memoryview | None
    ) -> IncomingReply:
        """Send a request, and read the status and headers of its reply."""
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if content is not None or method != "GET":
            lines.append(f"Content-Length: {len(content or b'')}")
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header must not contain a line break")
        # A server may refuse a body before it has read all of it; its reply gives the reason.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1"))
            if content:
                self._socket.sendall(content)
        return IncomingReply(self._socket)


class IncomingReply:
    """The reply to a request, whose content may still be on its way."""

    def __init__(self, connection: socket.socket) -> None:
        self.headers: dict[str, str] = {}  # by names in lower case
        self._socket = connection
        self._parser = httptools.HttpResponseParser(self)
        self._has_headers = self._is_complete = self._may_continue = False
        self._content: list[bytes] = []
        while not self._has_headers:
            self._receive()
        self.status: int = self._parser.get_status_code()

    @property
    def may_continue(self) -> bool:
        """Whether the connection can have another request after this complete reply."""
        return self._may_continue

    def read(self) -> bytes:
        """The whole content."""
        while not self._is_complete:
            self._receive()
        return b"".join(self._content)

    def lines(self) -> Iterator[bytes]:
        """The lines of the content, each as soon as it has arrived."""
        rest = b""
        while True:
            *lines, rest = b"".join([rest, *self._content]).splitlines(keepends=True) or [b""]
            self._content.clear()
            if rest.endswith(b"\n") or self._is_complete:
                lines, rest = [*lines, *([rest] if rest else [])], b""
            yield from lines
            if self._is_complete and not self._content:
                return
            self._receive()

    def _receive(self) -> None:
        block = self._socket.recv(BLOCK_BYTES)
        if not block:
            if not self._has_headers or {"content-length", "transfer-encoding"} & self.headers.keys():
                raise ReplyError("the connection ended before the reply was complete")
            self._is_complete = True  # the end of the connection is the end of such a reply
            return
        try:
            self._parser.feed_data(block)
        except httptools.HttpParserError as error:
            raise ReplyError(f"the reply is not HTTP: {error}") from error

    # Called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The content follows."""
        self._has_headers = True

    def on_body(self, body: bytes) -> None:
        """Keep a part of the content."""
        self._content.append(body)

    def on_message_complete(self) -> None:
        """The reply is complete."""
        self._is_complete, self._may_continue = True, self._parser.should_keep_alive()
