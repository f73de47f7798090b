"""A question has a time limit, and a server that stops does not wait for one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.serve import evaluate
from tests import http
from tests.surfaces.conftest import Served
from tests.surfaces.pour import pour_view
from tests.unit.store.partial_files import simple_event
from tests.waiting import wait_until

# Windows without end: each of them must be composed and compared, and no row of them is kept.
ENDLESS = "/v1/views/traffic?window=36500d&every=1m&having=hits%20%3C%200"
ENDLESS_SQL = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n % 5 + 1 FROM t) SELECT count(*) FROM t"


@pytest.fixture(autouse=True)
def _endless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "MOST_SHAPED", 1 << 60)


def test_a_question_beyond_its_limit_gets_the_error(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, question_timeout_s=0.1)
    pour_view(served.runtime, "traffic", [simple_event("/home", 1_700_000_000_000, 1)])
    reply = served.http.get(ENDLESS)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["found"]) == (400, "question_limit", "no answer after 0.1 s")
    assert "setting question_timeout_s" in error["fix"]
    served.runtime.answering._limit._seconds = 3600  # what follows may be slow
    assert served.http.get("/v1/views/traffic?key.page=/home").json()["rows"][0]["hits"] == 1


def test_a_server_that_stops_ends_a_question_that_runs(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, question_timeout_s=3600)
    pour_view(served.runtime, "traffic", [simple_event("/home", 1_700_000_000_000, 1)])
    replies: list[dict[str, Any]] = []

    def ask() -> None:
        with http.Client() as client:
            replies.append(client.get(f"{served.url}{ENDLESS}", timeout=300).json())

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: served.runtime.answering._limit._working)
    served.stop()
    asking.join()
    assert replies[0]["error"]["code"] == "unavailable"
    assert replies[0]["error"]["message"] == "the server is stopping"


def test_a_server_that_stops_ends_a_query_that_runs(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, sql_timeout_s=3600)
    replies: list[dict[str, Any]] = []

    def ask() -> None:
        with http.Client() as client:
            replies.append(client.post(f"{served.url}/v1/sql", json={"query": ENDLESS_SQL}, timeout=300).json())

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: served.runtime.answering._children._lent)
    served.stop()
    asking.join()
    assert replies[0]["error"]["code"] == "unavailable"
    assert replies[0]["error"]["message"] == "the server is stopping"
