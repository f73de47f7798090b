"""HTTP to one server over connections that are kept, by the standard library: a client that is quick to load."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import SplitResult, urlencode, urlsplit

CONNECT_S = 5.0
REPLY_S = 60.0

Params = Mapping[str, object] | Iterable[tuple[str, str]]


class ConnectError(ConnectionError):
    """No connection could be made: nobody listens, or the host is not known."""


class ReplyError(ConnectionError):
    """The connection ended before the reply did, or what came is no HTTP."""


@dataclass(frozen=True)
class Reply:
    """A reply that was read whole."""

    status: int
    headers: Mapping[str, str]  # by names in lower case
    content: bytes


class Http:
    """A server at a URL. Threads may use it at the same time: each request has a connection for itself.

    A request that fails raises ConnectError, ReplyError or TimeoutError. Proxies of the environment are not used: they
    are not for a server that is most often on this machine.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._lock = threading.Lock()
        self._idle: list[HTTPConnection] = []
        self.go_to(url)

    def go_to(self, url: str) -> None:
        """Send requests to another URL from now on."""
        self.close()
        self._url: SplitResult = urlsplit(url)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._url.hostname or "", self._url.port or (443 if self._url.scheme == "https" else 80)

    def close(self) -> None:
        """End the connections that nobody uses now."""
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
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = REPLY_S,
    ) -> Reply:
        """One request and its whole reply; the timeout is for each wait."""
        with self._sent(method, path, params, content, headers, timeout) as (connection, reply):
            content = reply.read()
            if not reply.will_close:
                with self._lock:
                    self._idle.append(connection)
            return Reply(reply.status, _lower(reply), content)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Params = (),
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[tuple[Reply, Iterator[bytes]]]:
        """One request and the lines of its reply as they come; the reply itself has no content."""
        with self._sent(method, path, params, content, headers, REPLY_S) as (connection, reply):
            try:
                yield Reply(reply.status, _lower(reply), b""), iter(reply.readline, b"")
            finally:
                connection.close()

    @contextmanager
    def _sent(
        self,
        method: str,
        path: str,
        params: Params,
        content: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: float | None,
    ) -> Iterator[tuple[HTTPConnection, HTTPResponse]]:
        query = urlencode(list(params.items() if isinstance(params, Mapping) else params))
        target = self._url.path + path + (f"?{query}" if query else "")
        connection = self._connection(timeout)
        try:
            # A server may refuse a body before it has read all of it: its reply says why.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, target, content, {**self._headers, **(headers or {})})
            yield connection, connection.getresponse()
        except TimeoutError:
            connection.close()
            raise
        except (HTTPException, OSError) as error:
            connection.close()
            raise ReplyError(str(error) or type(error).__name__) from error
        except BaseException:
            connection.close()
            raise

    def _connection(self, timeout: float | None) -> HTTPConnection:
        """One that is kept and that the server has not ended, else a new one."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connect(min(CONNECT_S, CONNECT_S if timeout is None else timeout))
            elif _has_ended(connection):
                connection.close()
                continue
            assert connection.sock is not None
            connection.sock.settimeout(timeout)
            return connection

    def _connect(self, timeout: float) -> HTTPConnection:
        kind = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
        connection = kind(*self.address, timeout=timeout)
        try:
            connection.connect()
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectError(str(error)) from error
        return connection


def _has_ended(connection: HTTPConnection) -> bool:
    """Whether the server has closed a connection that waits for its next request: then there is something to read."""
    waiting = select.poll()
    assert connection.sock is not None
    waiting.register(connection.sock, select.POLLIN)
    return bool(waiting.poll(0))


def _lower(reply: HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in reply.getheaders()}
