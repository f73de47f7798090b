"""A workspace with one stream and two views, and the outcomes for servers that were killed in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.faults import VARIABLE

from ..server import UpServer
from ..warm import Java, WarmServer
from .seeds import MANY
from .tally import Tally

TALLY = pytest.StashKey[Tally]()
KILLED = -9

DEFINITIONS = """
CREATE STREAM clicks (id BIGINT NOT NULL, who STRING, weight BIGINT, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 10 SECONDS);
CREATE MATERIALIZED VIEW per_minute AS
  SELECT who, count(*) AS n, sum(weight) AS weight, approx_count_distinct(id) AS ids FROM clicks
  GROUP BY who, window(at, '1 minute');
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(id) AS ids, max(id) AS last FROM clicks;
"""


@pytest.fixture(autouse=True)
def end_servers() -> Iterator[None]:
    """A test that fails leaves no server behind."""
    yield
    UpServer.kill_all()


def start_to_die(java: Java, folder: Path, point: str) -> WarmServer:
    """A server that accepts events until it reaches a point, which it may do while it still starts."""
    server = java.server(folder, **{VARIABLE: point})
    try:
        return server.wait_for_http()
    except AssertionError:
        if server.process.poll() != KILLED:
            raise
        return server


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "clicks.sql").write_text(DEFINITIONS)
    (tmp_path / "headrace.toml").write_text("lease_s = 2\nrehearse = false\n")
    return tmp_path


@pytest.fixture(scope="session")
def tally(pytestconfig: pytest.Config) -> Tally:
    """Over all seeds; reports progress while it runs, if there are many."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    pytestconfig.stash[TALLY] = Tally(say) if MANY else Tally()
    return pytestconfig.stash[TALLY]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The outcome of every kill."""
    tally = config.stash.get(TALLY, None)
    if tally is None:
        return
    terminalreporter.section("servers killed")
    for line in tally.table() if MANY or tally.sum.bad else tally.table()[-1:]:
        terminalreporter.write_line(line)
