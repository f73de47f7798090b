"""A long apply: the server continues to work, and a stop waits for at most one step of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headrace.cli.app import run
from tests import http
from tests.server import UpServer
from tests.surfaces.conftest import Served, visit
from tests.waiting import wait_until
from tests.warm import Java

# A definition that loads as long as a file exists, to keep a server in the middle of an apply.
SLOW = """
import time
from pathlib import Path

import headrace as hr

here = Path(__file__).parent
(here / "begun").touch()
while (here / "wait").exists():
    time.sleep(0.05)
late = hr.Stream("late", "id BIGINT, at TIMESTAMP", event_time="at")
"""
MANY = "".join(f"CREATE MATERIALIZED VIEW many_{n} AS SELECT count(*) AS n FROM visits;\n" for n in range(10))


@pytest.fixture(scope="module")
def up(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpServer]:
    folder = tmp_path_factory.mktemp("long") / "shop"
    assert run(["init", str(folder)]) == 0
    yield java.server(folder, HEADRACE_STOP_WITHIN_S="9").wait_until_ready()  # its apply ends by force
    UpServer.kill_all()


@contextmanager
def slow_apply(up: UpServer) -> Iterator[None]:
    """An apply that has begun, and does not end while this is entered."""
    definitions = up.folder / "definitions"
    (definitions / "wait").touch()
    (definitions / "begun").unlink(missing_ok=True)
    (definitions / "slow.py").write_text(SLOW)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(http.post, f"{up.url}/v1/apply")
        wait_until((definitions / "begun").exists, details=lambda: future)
        try:
            yield
        finally:
            (definitions / "wait").unlink()
        with suppress(httpx2.HTTPError):  # of a server that has stopped meanwhile
            future.result()


def test_events_flow_and_health_is_ok_while_an_apply_takes_long(up: UpServer) -> None:
    with slow_apply(up):
        start = time.monotonic()

        def beats() -> bool:
            heartbeat_ms: int = up.get("/v1/status")["heartbeat_ms"]
            return heartbeat_ms / 1000 < time.monotonic() - start

        wait_until(beats)  # the beat before the apply would not do
        assert up.get("/health")["status"] == "ok"
        up.wait_for_token(up.post("visits", [visit()], None)["token"])
        assert "late" not in {stream["name"] for stream in up.get("/v1/streams")["streams"]}
    assert "late" in {stream["name"] for stream in up.get("/v1/streams")["streams"]}


def test_a_stop_does_not_wait_for_an_apply_that_does_not_end(java: Java, up: UpServer) -> None:
    (up.folder / "definitions" / "more.sql").write_text("CREATE STREAM more (id BIGINT, at TIMESTAMP);\n")
    with slow_apply(up):
        up.stop()
    again = java.server(up.folder, HEADRACE_REHEARSE="false").wait_until_ready()
    assert "more" in {stream["name"] for stream in again.get("/v1/streams")["streams"]}, "the start applies it"
    assert again.stop() == 0


def test_a_stop_ends_an_apply_between_two_steps_and_the_next_start_does_the_rest(
    applied: Path, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(applied)
    store, registered = served.runtime._store, []
    register = store.register

    def register_and_stop(view: Any, *rest: Any, **more: Any) -> Any:
        registered.append(view.name)
        if len(registered) == 3:
            served.runtime.stopped.set()  # as when the process must stop
        return register(view, *rest, **more)

    monkeypatch.setattr(store, "register", register_and_stop)
    (applied / "definitions" / "many.sql").write_text(MANY)
    reply = served.http.post("/v1/apply")
    assert len(registered) == 3
    assert reply.status_code == 503
    assert reply.json()["error"]["message"] == "the server is stopping"
    assert reply.json()["error"]["fix"] == "the rest is done at the next start"
    served.stop()
    again = serve(applied)
    assert again.verbs.plan().empty
    views = again.http.get("/v1/views").json()["views"]
    assert {view["name"] for view in views if view["version"] == 1} >= {f"many_{n}" for n in range(10)}
