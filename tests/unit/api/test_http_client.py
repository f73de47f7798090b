"""The HTTP client on real sockets: connections are reused or replaced, and failures are distinguished."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headrace.api.http_client import ConnectError, HttpServer, ReplyError
from tests.ports import free_port

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Kind: Test\r\n\r\nhi"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n4\r\ntwo\n\r\n0\r\n\r\n"

Serve = Callable[[socket.socket], None]


def read_request(connection: socket.socket) -> bytes:
    request = b""
    while b"\r\n\r\n" not in request:
        part = connection.recv(65536)
        if not part:
            return request
        request += part
    return request


@contextmanager
def listening(*serves: Serve) -> Iterator[str]:
    """The URL of a server that gives each connection, in turn, to one of these."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            for serve in serves:
                connection, _ = server.accept()
                with connection:
                    serve(connection)

        thread = threading.Thread(target=run)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/below"
        thread.join()


def test_a_connection_is_reused_for_the_next_request() -> None:
    requests: list[bytes] = []

    def twice(connection: socket.socket) -> None:
        for _ in range(2):
            requests.append(read_request(connection))
            connection.sendall(OK)

    with listening(twice) as url:
        http = HttpServer(url, "secret")
        first = http.request("GET", "/a", params={"x": "ä b", "n": 1})
        second = http.request("POST", "/b", content=b"", headers={"accept": "text/plain"})
        http.close()
    assert (first.status, first.headers["x-kind"], first.content) == (200, "Test", b"hi")
    assert second.content == b"hi"
    assert requests[0].startswith(b"GET /below/a?x=%C3%A4+b&n=1 HTTP/1.1\r\n")
    assert b"authorization: Bearer secret\r\n" in requests[0]
    assert b"Content-Length: 0\r\n" in requests[1]
    assert b"accept: text/plain\r\n" in requests[1]


def test_a_connection_that_the_server_has_ended_is_replaced() -> None:
    ended = threading.Event()

    def once(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(OK)

    def first(connection: socket.socket) -> None:
        once(connection)
        connection.shutdown(socket.SHUT_RDWR)
        ended.set()

    with listening(first, once) as url:
        http = HttpServer(url)
        assert http.request("GET", "/").content == b"hi"
        assert ended.wait(180)
        assert http.request("GET", "/").content == b"hi"
        http.close()


def test_a_reply_that_comes_before_the_body_was_read_is_read() -> None:
    def refuse(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 20):
            pass

    with listening(refuse) as url:
        reply = HttpServer(url).request("POST", "/", content=b"x" * (8 << 20))
    assert (reply.status, reply.content) == (413, b"big")


def test_lines_come_as_they_are_sent() -> None:
    def serve(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(CHUNKED)

    with listening(serve) as url, HttpServer(url).stream("GET", "/") as (reply, lines):
        assert reply.status == 200
        assert list(lines) == [b"one\n", b"two\n"]


def test_failures_are_distinguished() -> None:
    with pytest.raises(ConnectError, match="refused"):
        HttpServer(f"http://127.0.0.1:{free_port()}").request("GET", "/")
    with listening(lambda connection: None) as url, pytest.raises(ReplyError):
        HttpServer(url).request("GET", "/")
    release = threading.Event()
    with listening(lambda connection: release.wait(180) and None) as url:
        with pytest.raises(TimeoutError):
            HttpServer(url).request("GET", "/", timeout=0.1)
        release.set()
