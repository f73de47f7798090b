"""HTTP to one server over reused connections."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import SplitResult, urlencode, urlsplit

from headrace.client.connection import Connection, IncomingReply, ReplyError

CONNECT_S = 5.0
REPLY_S = 60.0

Params = Mapping[str, object] | Iterable[tuple[str, str]]


class ConnectError(ConnectionError):
    """No connection could be established: no server listens, or the host is unknown."""


@dataclass(frozen=True)
class Reply:
    """A complete reply."""

    status: int
    headers: Mapping[str, str]  # by names in lower case
    content: bytes


class Http:
    """A server at a URL. Thread-safe: each request has its own connection.

    A request that fails raises ConnectError, ReplyError or TimeoutError. Proxies of the environment are not used,
    since most servers are on this machine.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self._token = {"authorization": f"Bearer {token}"} if token else {}
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
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
    ) -> Reply:
        """One request and its whole reply; the timeout is for each wait."""
        with self._exchange(method, path, params, content, headers, timeout) as (connection, reply):
            reply_content = reply.read()
            if reply.may_continue:
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()
            return Reply(reply.status, reply.headers, reply_content)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Params = (),
        content: bytes | memoryview | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[tuple[Reply, Iterator[bytes]]]:
        """One request and the lines of its reply as they come; the reply itself has no content."""
        with self._exchange(method, path, params, content, headers, REPLY_S) as (connection, reply):
            try:
                yield Reply(reply.status, reply.headers, b""), reply.lines()
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
    ) -> Iterator[tuple[Connection, IncomingReply]]:
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

    def _connection(self, timeout: float | None) -> Connection:
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

    def _connect(self, timeout: float) -> Connection:
        try:
            return Connection(*self.address, timeout, is_secure=self._url.scheme == "https")
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectError(str(error)) from error
