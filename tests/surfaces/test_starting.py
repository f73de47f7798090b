"""Requests that need Spark are repeated while it starts; here it never does, so they fail in the end."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from headrace.cli.waiting import say_waits
from headrace.client import far
from headrace.client.connect import Connection
from headrace.errors import HeadraceError, StartingError
from tests.surfaces.conftest import Served

REQUESTS: dict[str, Callable[[Connection], object]] = {
    "refresh": lambda connection: connection.refresh("traffic"),
    "refresh --full": lambda connection: connection.refresh("traffic", full=True),
    "replay": lambda connection: connection.dead_letters("visits").replay(),
    "explain": lambda connection: connection.explain("traffic", {"page": "/home"}, "2026-03-01T12:00:00Z"),
}


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_is_repeated_until_spark_runs_or_its_time_is_over(served: Served, request_: str) -> None:
    pauses: list[HeadraceError] = []
    with Connection(far.Remote(served.url, ready_for_s=2.5)) as connection:
        connection.on_wait(lambda error, pause_s: pauses.append(error))
        start = time.monotonic()
        with pytest.raises(StartingError, match="Spark is starting"):
            REQUESTS[request_](connection)
    assert len(pauses) >= 2
    assert time.monotonic() - start > 1.5


def test_a_waiting_command_says_what_it_waits_for(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    with Connection(far.Remote(served.url, ready_for_s=1.5)) as connection:
        connection.on_wait(say_waits())
        with pytest.raises(StartingError, match="view 'traffic' cannot be refreshed yet: Spark is starting"):
            connection.refresh("traffic")
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "waiting for the server: view 'traffic' cannot be refreshed yet: Spark is starting"


def test_a_commit_that_does_not_exist_is_not_waited_for(served: Served) -> None:
    with Connection(far.Remote(served.url)) as connection, pytest.raises(HeadraceError, match="has no commit yet"):
        connection.ask("traffic", version_as_of=1)
