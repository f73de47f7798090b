"""Headers of any bytes: a reply in the one error shape, never a fault of the server."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import orjson
import pytest

from tests.surfaces.conftest import ERROR_SHAPE, Served

ODD = [b"", b"[", b"]", b"[::1", b"http://[", b"://", b"\xff\xfe", "ä€".encode(), b"a" * 5_000, b"0", b"-1", b"1e9",
       b"99999999999999999999", "²".encode("latin-1"), "²".encode(), b'"', b"'", b"%00", b"a@b", b"a:b:c", b"null",
       b";", b",,", b"gzip, gzip", b"text/csv; charset=\xff", b"\t", b"*/*;q=x", b"[v1.x]", b"127.0.0.1:99999",
       b"\x7f"]  # fmt: skip
NAMES = ["Host", "Origin", "Content-Length", "Content-Type", "Content-Encoding", "Accept", "Idempotency-Key", "Cookie",
         "Authorization", "Sec-Fetch-Site", "Transfer-Encoding", "Expect", "Accept-Encoding"]  # fmt: skip
REQUESTS = [
    ("POST", "/v1/streams/visits/events", b'{"visitor": "a", "at": "2026-03-01T12:00:00Z"}'),
    ("GET", "/v1/views/traffic", b""),
    ("GET", "/metrics", b""),
    ("GET", "/", b""),
    ("GET", "/nowhere", b""),
]
TOKEN = "open sesame"


@pytest.fixture(params=[None, TOKEN], ids=["open", "with a token"])
def target(request: pytest.FixtureRequest, applied: Path, serve: Callable[..., Served]) -> Served:
    return serve(applied, token=request.param)


def send(served: Served, method: str, path: bytes, headers: dict[str, bytes], body: bytes) -> tuple[int, bytes]:
    """Send one request with exactly these bytes; returns status and body of the reply."""
    host, port = served.url.removeprefix("http://").split(":")
    token = served.runtime.workspace.settings.token
    all_headers: dict[str, bytes] = {"Host": f"{host}:{port}".encode(), "Content-Length": str(len(body)).encode()}
    all_headers |= {"Authorization": f"Bearer {token}".encode()} if token else {}
    all_headers |= {**headers, "Connection": b"close"}
    lines = [method.encode() + b" " + path + b" HTTP/1.1"]
    lines += [name.encode() + b": " + value for name, value in all_headers.items()]
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        if {"Content-Length", "Transfer-Encoding"} & set(headers):
            connection.shutdown(socket.SHUT_WR)  # a body that is shorter than its declared length ends here
        with connection.makefile("rb") as reply:
            head, _, rest = reply.read().partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), rest


@contextmanager
def no_fault(served: Served) -> Iterator[Callable[[int, bytes], None]]:
    """Nothing is logged as an internal error meanwhile; yields a function that checks a reply."""

    def check(status: int, body: bytes) -> None:
        assert status != 500, body
        if status >= 400:
            assert set(orjson.loads(body)["error"]) == ERROR_SHAPE

    yield check
    log = served.runtime.workspace.folder / "test.log"
    assert not log.exists() or "Traceback" not in log.read_text(), log.read_text()[-3000:]
    assert served.http.get("/health").status_code == 200


def test_malformed_headers_cause_no_internal_error(target: Served) -> None:
    with no_fault(target) as check:
        for method, path, body in REQUESTS:
            for name in NAMES:
                for value in ODD:
                    check(*send(target, method, path.encode(), {name: value}, body))


def test_malformed_paths_cause_no_internal_error(target: Served) -> None:
    paths = [b"/v1/views/%ff", b"/%00", b"//", b"/?%ff=%fe", b"/views/traffic?a=\xff", b"/nowhere?\xff", b"/\xff", b"*",
             b"/v1/tokens/%20", b"/v1/tokens/visits.-1", b"/v1/tokens/visits." + b"f" * 40, b"/v1/views/\xe2\x82\xac",
             b"/v1/streams/%F0%9F/dead-letters", b"/login?next=%ff", b"/v1/views/a%2Fb", b"/page/..%2f..",
             b"http://[/"]  # fmt: skip
    with no_fault(target) as check:
        for path in paths:
            check(*send(target, "GET", path, {}, b""))


def test_headers_of_random_bytes_cause_no_internal_error(target: Served) -> None:
    random = Random(12)
    byte_values = sorted(set(range(1, 256)) - set(b"\r\n"))
    with no_fault(target) as check:
        for _ in range(300):
            value = bytes(random.choices(byte_values, k=random.randint(0, 30)))
            check(*send(target, "POST", b"/v1/streams/visits/events", {random.choice(NAMES): value}, b"{}"))
