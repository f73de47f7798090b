"""POST /v1/streams/{s}/events and tokens: what is accepted, what is refused, and the replies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from tests import http
from tests.surfaces.conftest import Served, visit
from tests.surfaces.pour import pour_lines

EVENTS = "/v1/streams/visits/events"


def lines(*events: dict[str, Any]) -> bytes:
    return b"\n".join(orjson.dumps(event) for event in events)


@pytest.mark.parametrize(
    ("body", "kind", "accepted"),
    [
        (orjson.dumps(visit()), "application/json", 1),
        (orjson.dumps([visit(), visit(1)]), "application/json; charset=utf-8", 2),
        (orjson.dumps(visit(), option=orjson.OPT_INDENT_2), "application/json", 1),
        (b"[]", "application/json", 0),
        (lines(visit(), visit(1), visit(2)), "application/x-ndjson", 3),
        (lines(visit(), visit(1)) + b"\n\n", "application/x-ndjson", 2),
        (lines(visit(), visit(1), visit(2)), "text/plain", 3),
        (orjson.dumps([visit(), visit(1)]), "", 2),
        (orjson.dumps(visit(), option=orjson.OPT_INDENT_2), "", 1),
    ],
)
def test_every_form_of_body_is_accepted(served: Served, body: bytes, kind: str, accepted: int) -> None:
    reply = served.http.post(EVENTS, content=body, headers={"content-type": kind} if kind else {})
    assert reply.status_code == 200
    assert reply.json() == {"accepted": accepted, "refused": [], "token": reply.json()["token"]}
    assert reply.headers["content-type"] == "application/json"


def test_bad_events_are_refused_by_index_and_reason(served: Served) -> None:
    events = [visit(), visit(status="many"), visit(2), {"page": "/home"}]
    reply = served.http.post(EVENTS, json=events).json()
    assert reply["accepted"] == 2
    assert [refusal["index"] for refusal in reply["refused"]] == [1, 3]
    assert "status" in reply["refused"][0]["reason"]
    assert "visitor" in reply["refused"][1]["reason"]


def test_keep_bad_accepts_lines_without_parsing(served: Served) -> None:
    body = lines(visit()) + b"\nbroken\n"
    headers = {"content-type": "application/x-ndjson"}
    reply = served.http.post(EVENTS, params={"keep_bad": "true"}, content=body, headers=headers)
    assert reply.json()["accepted"] == 2
    wrong = served.http.post(EVENTS, params={"keep_bad": "maybe"}, content=body, headers=headers)
    assert wrong.status_code == 422
    assert wrong.json()["error"]["code"] == "request"


@pytest.mark.parametrize(
    ("stream", "body", "status", "code", "words"),
    [
        ("visit", b"{}", 404, "not_found", "did you mean 'visits'?"),
        ("visits", b"", 400, "ingest", "the body is empty"),
        ("visits", b"[1, 2", 400, "ingest", "not a valid JSON array"),
        ("visits", b"[{},,{}]", 400, "ingest", "empty element"),
    ],
)
def test_an_invalid_request_is_refused(
    served: Served, stream: str, body: bytes, status: int, code: str, words: str
) -> None:
    headers = {"content-type": "application/json"}
    reply = served.http.post(f"/v1/streams/{stream}/events", content=body, headers=headers)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (status, code)
    assert words in f"{error['message']} {error['fix']}"


def test_a_retried_request_adds_nothing(served: Served) -> None:
    headers = {"idempotency-key": "one"}
    first = served.http.post(EVENTS, json=[visit()], headers=headers).json()
    again = served.http.post(EVENTS, json=[visit()], headers=headers).json()
    assert again == first
    other = served.http.post(EVENTS, json=[visit(5)], headers=headers)
    assert other.status_code == 409
    assert other.json()["error"]["code"] == "conflict"
    fresh = served.http.post(EVENTS, json=[visit()], headers={"idempotency-key": "two"}).json()
    assert fresh["token"] != first["token"]


def test_a_key_is_used_up_even_if_all_events_are_refused(applied: Path, serve: Callable[..., Served]) -> None:
    served, headers = serve(applied), {"idempotency-key": "bad"}
    first = served.http.post(EVENTS, json=[{"page": "/"}], headers=headers).json()
    assert (first["accepted"], len(first["refused"])) == (0, 1)
    assert served.http.post(EVENTS, json=[{"page": "/"}], headers=headers).json() == first
    assert served.http.post(EVENTS, json=[visit()], headers=headers).status_code == 409
    served.stop()
    served = serve(applied)  # it is still known after a restart
    assert served.http.post(EVENTS, json=[{"page": "/"}], headers=headers).json() == first
    assert served.http.post(EVENTS, json=[visit()], headers=headers).status_code == 409
    # A record without events has no effect on others.
    pour_lines(served.runtime, "visits", orjson.dumps(visit()))
    served.http.post(EVENTS, json=[{}], headers={"idempotency-key": "also bad"})
    pour_lines(served.runtime, "visits", orjson.dumps(visit(1)), b"broken")
    [stream] = served.http.get("/v1/streams").json()["streams"]
    assert (stream["events"], stream["dead_letters"], stream["backlog_bytes"]) == (2, 1, 0)


def test_a_request_that_fails_leaves_its_key_free(served: Served) -> None:
    headers = {"idempotency-key": "free"}
    assert served.http.post(EVENTS, content=b"", headers=headers).status_code == 400
    assert served.http.post(EVENTS, json=[visit()], headers=headers).json()["accepted"] == 1


def test_a_key_has_at_most_255_characters(served: Served) -> None:
    assert served.http.post(EVENTS, json=[visit()], headers={"idempotency-key": "k" * 255}).status_code == 200
    for key, words in (("k" * 256, "is too long"), ("", "is empty")):
        reply = served.http.post(EVENTS, json=[visit()], headers={"idempotency-key": key})
        error = reply.json()["error"]
        assert (reply.status_code, error["code"]) == (400, "ingest")
        assert error["message"] == f"stream 'visits': the Idempotency-Key {words}"
        assert (error["found"], error["expected"]) == (f"{len(key)} characters", "1 to 255")


def test_concurrent_requests_with_one_key_are_stored_once(served: Served) -> None:
    def post(_: int) -> Any:
        return http.post(served.url + EVENTS, json=[visit()], headers={"idempotency-key": "k"}).json()

    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(post, range(24)))
    assert all(reply == replies[0] for reply in replies)


def test_a_body_over_the_limit_is_refused_while_it_is_received(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, max_body_mb=1)
    chunks = 0

    def endless() -> Any:
        nonlocal chunks
        for _ in range(200):
            chunks += 1
            yield b" " * (256 << 10)

    declared = served.http.post(EVENTS, content=b" " * (2 << 20))
    assert declared.status_code == 413
    assert "max_body_mb" in declared.json()["error"]["expected"]
    try:
        chunked = served.http.post(EVENTS, content=endless())
        assert chunked.status_code == 413
    except httpx2.TransportError:
        pass  # the server may close the connection before the client has read the reply
    assert chunks < 200


def test_overload_has_a_retry_after_header(served: Served) -> None:
    served.ingest("visits").most_backlog_bytes = -1
    reply = served.http.post(EVENTS, json=[visit()])
    assert reply.status_code == 429
    assert reply.headers["retry-after"] == "1"
    assert reply.json()["error"]["code"] == "overload"


def test_a_token_waits_no_longer_than_requested(served: Served) -> None:
    token = served.http.post(EVENTS, json=[visit()]).json()["token"]
    assert served.http.get(f"/v1/tokens/{token}").json() == {"complete": False, "stalled": []}
    began = time.monotonic()
    assert served.http.get(f"/v1/tokens/{token}", params={"wait": "700ms"}).json()["complete"] is False
    assert time.monotonic() - began > 0.6


def test_a_waiting_token_lets_the_server_stop(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.web.ingest_routes.LONGEST_WAIT_S", 3600)
    token = served.http.post(EVENTS, json=[visit()]).json()["token"]
    state, looked = served.runtime.tokens.state, threading.Event()
    monkeypatch.setattr(served.runtime.tokens, "state", lambda token: (state(token), looked.set())[0])
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(http.get, f"{served.url}/v1/tokens/{token}", params={"wait": "1h"})
        assert looked.wait(180)
        served.runtime.stopped.set()  # as when the process must stop
        assert reply.result().status_code == 200


@pytest.mark.parametrize(
    ("token", "wait", "status"), [("nonsense", "", 404), ("x.1", "", 404), ("visits.1", "soon", 422)]
)
def test_an_invalid_token_is_refused(served: Served, token: str, wait: str, status: int) -> None:
    reply = served.http.get(f"/v1/tokens/{token}", params={"wait": wait})
    assert reply.status_code == status
    assert set(reply.json()["error"]) == {"code", "message", "found", "expected", "fix", "where"}
