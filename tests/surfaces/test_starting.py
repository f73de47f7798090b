"""Requests that need Spark are repeated while it starts; here it never does, so they fail in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.api import remote, remote_calls
from headrace.api.connect import Connection
from headrace.cli.waiting import say_waits
from headrace.errors import HeadraceError, StartingError
from tests.surfaces.conftest import Served

REQUESTS: dict[str, Callable[[Connection], object]] = {
    "refresh": lambda connection: connection.refresh("traffic"),
    "refresh --full": lambda connection: connection.refresh("traffic", full=True),
    "replay": lambda connection: connection.dead_letters("visits").replay(),
    "explain": lambda connection: connection.explain("traffic", {"page": "/home"}, "2026-03-01T12:00:00Z"),
}


class Clock:
    """Time passes only while somebody sleeps, so that a slow machine is not in the way."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the client."""
    clock = Clock()
    monkeypatch.setattr(remote_calls, "time", clock)
    return clock


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_is_repeated_until_spark_runs_or_its_time_is_over(
    served: Served, clock: Clock, request_: str
) -> None:
    pauses_s: list[float] = []
    with Connection(remote.RemoteWorkspace(served.url, ready_for_s=10)) as connection:
        connection.on_wait(lambda error, pause_s: pauses_s.append(pause_s))
        with pytest.raises(StartingError, match="Spark is starting"):
            REQUESTS[request_](connection)
    assert 5 < sum(pauses_s) <= 10
    assert len(pauses_s) >= 2
    assert clock.monotonic() == sum(pauses_s)


@pytest.mark.usefixtures("clock")
def test_a_waiting_command_says_what_it_waits_for(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    with Connection(remote.RemoteWorkspace(served.url, ready_for_s=5)) as connection:
        connection.on_wait(say_waits())
        with pytest.raises(StartingError, match="view 'traffic' cannot be refreshed yet: Spark is starting"):
            connection.refresh("traffic")
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "waiting for the server: view 'traffic' cannot be refreshed yet: Spark is starting"


def test_a_commit_that_does_not_exist_is_not_waited_for(served: Served) -> None:
    with (
        Connection(remote.RemoteWorkspace(served.url)) as connection,
        pytest.raises(HeadraceError, match="has no commit yet"),
    ):
        connection.ask("traffic", version_as_of=1)
