"""HTTP to one server over reused connections: requests, replies and server-sent events."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlencode, urlsplit

import httptools

from headrace.lazy import later

if TYPE_CHECKING:
    import ssl
else:  # loaded by their first use
    ssl = later("ssl")


BLOCK_BYTES = 256 << 10


class ReplyError(ConnectionError):
    """The connection ended before the reply was complete, or the reply is not HTTP."""


class HttpConnection:
    """A connection that has one request at a time."""

    def __init__(self, host: str, port: int, timeout: float, *, is_secure: bool) -> None:
        # As text, a host would be encoded by three more modules.
        address: Any = (host.encode() if host.isascii() else host, port)
        self._socket = socket.create_connection(address, timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_secure:
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


CONNECT_S = 5.0
REPLY_S = 60.0

Params = Mapping[str, object] | Iterable[tuple[str, str]]


class ConnectError(ConnectionError):
    """No connection could be established: no server listens, or the host is unknown."""


@dataclass(frozen=True)
class HttpReply:
    """A complete reply."""

    status: int
    headers: Mapping[str, str]  # by names in lower case
    content: bytes


class HttpServer:
    """A server at a URL. Thread-safe: each request has its own connection.

    A request that fails raises ConnectError, ReplyError or TimeoutError. Proxies of the environment are not used,
    since most servers are on this machine.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self._token = {"authorization": f"Bearer {token}"} if token else {}
        self._lock = threading.Lock()
        self._idle: list[HttpConnection] = []
        self.go_to(url)

    def go_to(self, url: str) -> None:
        """Send requests to another URL from now on."""
        self.close()
        self._url: SplitResult = urlsplit(url)
        self._headers = {"Host": self._url.netloc.rpartition("@")[2], "Accept-Encoding": "identity", **self._token}

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._url.hostname or "", self._url.port or (443 if self._url.scheme == "https" else 80)

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Params = (),
        content: bytes | memoryview | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = REPLY_S,
    ) -> HttpReply:
        """One request and its whole reply; the timeout is for each wait."""
        with self._exchange(method, path, params, content, headers, timeout) as (connection, reply):
            reply_content = reply.read()
            if reply.may_continue:
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()
            return HttpReply(reply.status, reply.headers, reply_content)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Params = (),
        content: bytes | memoryview | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[tuple[HttpReply, Iterator[bytes]]]:
        """One request and the lines of its reply as they come; the reply itself has no content."""
        with self._exchange(method, path, params, content, headers, REPLY_S) as (connection, reply):
            try:
                yield HttpReply(reply.status, reply.headers, b""), reply.lines()
            finally:
                connection.close()

    @contextmanager
    def _exchange(
        self,
        method: str,
        path: str,
        params: Params,
        content: bytes | memoryview | None,
        headers: Mapping[str, str] | None,
        timeout: float | None,
    ) -> Iterator[tuple[HttpConnection, IncomingReply]]:
        query = urlencode(list(params.items() if isinstance(params, Mapping) else params))
        target = self._url.path + path + (f"?{query}" if query else "")
        connection = self._connection(timeout)
        try:
            yield connection, connection.exchange(method, target, {**self._headers, **(headers or {})}, content)
        except TimeoutError:
            connection.close()
            raise
        except OSError as error:
            connection.close()
            raise ReplyError(str(error) or type(error).__name__) from error
        except BaseException:
            connection.close()
            raise

    def _connection(self, timeout: float | None) -> HttpConnection:
        """An idle connection that the server has not closed, else a new one."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connect(min(CONNECT_S, CONNECT_S if timeout is None else timeout))
            elif connection.has_ended:
                connection.close()
                continue
            connection.settimeout(timeout)
            return connection

    def _connect(self, timeout: float) -> HttpConnection:
        try:
            return HttpConnection(*self.address, timeout, is_secure=self._url.scheme == "https")
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectError(str(error)) from error


EVENT_STREAM = "text/event-stream"


@dataclass
class ServerEvents:
    """Reads server-sent events line by line."""

    name: str = "message"
    id: str | None = None  # of the last one that had any
    _own_id: str | None = None
    _data: list[bytes] = field(default_factory=list)

    def read(self, lines: Iterator[bytes]) -> Iterator[tuple[str, str | None, bytes]]:
        """Name, own id and content of each event; one that has an id alone has no content."""
        for raw in lines:
            line = raw.rstrip(b"\r\n")
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if not line:
                if self._data or self._own_id is not None:
                    yield self.name, self._own_id, b"\n".join(self._data)
                self.name, self._own_id, self._data = "message", None, []
            elif name == b"event":
                self.name = value.decode()
            elif name == b"id":
                self.id = self._own_id = value.decode()
            elif name == b"data":
                self._data.append(value)
