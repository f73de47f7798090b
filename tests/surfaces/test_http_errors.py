"""One error shape for every HTTP failure, and access control."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from headrace.errors import WorkspaceError
from headrace.server.running_stream import Running
from headrace.web.guard import check_exposure
from headrace.web.http_server import bind
from tests.surfaces.conftest import ERROR_SHAPE, Served


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "words"),
    [
        ("GET", "/nowhere", None, 404, "no_such_path", "/openapi.json"),
        ("GET", "/v1/streams/visits/events", None, 405, "method_not_allowed", "does not support GET"),
        ("DELETE", "/v1/views/traffic", None, 405, "method_not_allowed", "does not support DELETE"),
        ("GET", "/v1/views/trafic", None, 404, "not_found", "did you mean 'traffic'?"),
        ("GET", "/v1/views/visits", None, 404, "not_found", "`headrace tail visits` shows its events"),
        ("POST", "/v1/streams/traffic/events", b"{}", 404, "not_found", "'traffic' is a view"),
        ("GET", "/v1/views/traffic?start=yesterday", None, 400, "question", "start is not a time"),
        ("GET", "/v1/views/traffic?page=/home", None, 400, "question", "key.page="),
        ("GET", "/v1/views/traffic?key.pgae=/home", None, 400, "question", "did you mean 'page'?"),
        ("GET", "/v1/views/traffic?limit=0", None, 400, "question", "limit is out of range"),
        ("GET", "/v1/views/traffic?cursor=x", None, 400, "question", "the cursor cannot be read"),
        ("GET", "/v1/views/traffic?limit=1&limit=2", None, 400, "question", "given twice"),
        ("GET", "/v1/views/traffic?start=-90s", None, 400, "question", "the nearest that work"),
        ("POST", "/v1/views/traffic/lookup", b"{", 400, "question", "the body is not JSON"),
        ("POST", "/v1/views/traffic/lookup", b"[1]", 400, "question", "not a JSON object"),
        ("POST", "/v1/views/traffic/lookup", b'{"kei": []}', 400, "question", "did you mean 'key'?"),
        ("POST", "/v1/views/traffic/lookup", b'{"keys": []}', 400, "question", "a lookup takes a list of keys"),
        ("POST", "/v1/views/traffic/lookup", b'{"keys": [{}], "by": ""}', 400, "question", "a lookup has no parameter"),
        ("GET", "/v1/views/traffic?settled_only=yes", None, 400, "question", "settled_only is true or false"),
        ("POST", "/v1/apply", b"{", 422, "request", "the body is not JSON"),
        ("POST", "/v1/apply", b'{"expect": 7}', 422, "request", "'expect' is not text"),
        ("POST", "/v1/apply", b'{"expect": "another"}', 409, "conflict", "look at the plan again"),
    ],
)
def test_every_failure_has_one_shape(
    served: Served, method: str, path: str, body: bytes | None, status: int, code: str, words: str
) -> None:
    reply = served.http.request(method, path, content=body)
    error = reply.json()["error"]
    assert set(error) == ERROR_SHAPE
    assert (reply.status_code, error["code"]) == (status, code)
    assert words in " ".join(str(part) for part in error.values())
    assert status != 405 or reply.headers["allow"]


def test_an_internal_error_of_http_shows_no_stack_trace(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(running: Running) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(served.runtime.monitor, "_describe_streams", fail)
    reply = served.http.get("/v1/streams")
    assert reply.status_code == 500
    assert reply.json()["error"]["code"] == "internal"
    assert "secret" not in reply.text
    assert "ZeroDivision" not in reply.text
    entry = orjson.loads((served.runtime.workspace.folder / "test.log").read_text().splitlines()[-1])
    assert entry["event"] == "request failed"
    assert "ZeroDivisionError: secret detail" in entry["exception"]


def test_a_token_is_required_if_one_is_set(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, token="open sesame")
    for texts in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "open sesame"},
        {"authorization": "Bearer ö"},
    ):
        headers = {name: value.encode() for name, value in texts.items()}
        reply = served.http.get("/v1/status", headers=headers)
        assert reply.status_code == 401
        assert reply.json()["error"]["code"] == "unauthorized"
        assert reply.headers["www-authenticate"] == "Bearer"
    assert served.http.get("/v1/status", headers={"authorization": "Bearer open sesame"}).status_code == 200
    assert served.http.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://["}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"host": "localhost:1"}, 200),
        ({"host": "[::1]:80"}, 200),
    ],
)
def test_without_a_token_pages_of_other_sites_are_refused(served: Served, headers: dict[str, str], status: int) -> None:
    reply = served.http.get("/v1/views", headers=headers)
    assert reply.status_code == status
    assert status == 200 or reply.json()["error"]["code"] == "forbidden"


def test_an_invalid_host_is_a_bad_request(served: Served, applied: Path) -> None:
    for host in ("[", "a@127.0.0.1", "127.0.0.1:port", "127.0.0.1/x"):
        reply = served.http.get("/v1/views", headers={"host": host})
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "bad_request")
        assert str(reply.json()["error"]["found"]) == repr(host)


def test_other_sites_may_link_to_pages_and_do_nothing_else(applied: Path, serve: Callable[..., Served]) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    image = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    frame = {**link, "sec-fetch-dest": "iframe"}
    served = serve(applied)
    for path in ("/", "/views/traffic"):
        assert served.http.get(path, headers=link).status_code == 200
    for path in ("/v1/status", "/v1/views", "/v1/views/traffic/explain", "/views/traffic/explain", "/metrics"):
        assert served.http.get(path, headers=link).status_code == 403
    for headers in (image, frame):
        assert served.http.get("/", headers=headers).status_code == 403
    for path in ("/v1/plan", "/v1/apply", "/v1/sql", "/v1/streams/visits/events"):
        assert served.http.post(path, headers=link).status_code == 403
    served.stop()
    # With a token, the request is not from a page of another site, which cannot know the token.
    served = serve(applied, token="open sesame")
    authorization = {"authorization": "Bearer open sesame"}
    assert served.http.get("/v1/status", headers={**image, **authorization}).status_code == 200
    assert served.http.get("/v1/status", headers=image).status_code == 401
    assert served.http.get("/login", headers=link).status_code == 200
    assert served.http.get("/login", headers=frame).status_code == 403


def test_plan_is_a_post_since_it_executes_definitions(served: Served) -> None:
    reply = served.http.get("/v1/plan")
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")


def test_an_exposed_host_needs_a_token() -> None:
    for host in ("127.0.0.1", "127.0.0.9", "::1", "localhost"):
        check_exposure(host, None)
    check_exposure("0.0.0.0", "token")
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(WorkspaceError, match="no token is set"):
            check_exposure(host, None)


def test_a_port_in_use_is_reported() -> None:
    with bind("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(WorkspaceError, match=f"port {port} on 127.0.0.1 is in use"):
            bind("127.0.0.1", port)
    with pytest.raises(WorkspaceError, match="cannot listen on host 'no-such-host'"):
        bind("no-such-host", 0)


def test_a_disconnected_client_is_no_error(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    async def half_a_request() -> None:
        host, port = served.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"POST /v1/streams/visits/events HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\n[".encode()
        )
        await writer.drain()
        writer.close()

    asyncio.run(half_a_request())
    assert served.http.get("/health").status_code == 200
    assert "request failed" not in caplog.text
