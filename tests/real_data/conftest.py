"""One real server for all tests over the shared data; they are skipped if it does not exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
STATUSES = {200: 9126, 304: 445, 404: 213, 301: 164, 206: 45, 500: 3, 403: 2, 416: 2}  # of the access log
DEFINITIONS = """
CREATE STREAM access (
  ip STRING NOT NULL, path STRING, status INT NOT NULL, bytes BIGINT, agent STRING, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
);
CREATE MATERIALIZED VIEW statuses AS
SELECT status, count(*) AS hits, count(bytes) AS sized, sum(bytes) AS bytes FROM access GROUP BY status;
CREATE MATERIALIZED VIEW people AS
SELECT approx_count_distinct(ip) AS ips, min(at) AS first_at, max(at) AS last_at FROM access;
CREATE MATERIALIZED VIEW hourly AS
SELECT approx_count_distinct(ip) AS ips, count(*) AS hits, count(*) FILTER (WHERE status >= 400) AS errors
FROM access GROUP BY window(at, '1 hour');

CREATE STREAM edits (
  `time` TIMESTAMP NOT NULL, channel STRING NOT NULL, page STRING, `user` STRING, isRobot BOOLEAN,
  cityName STRING, added BIGINT, deleted BIGINT, delta BIGINT,
  WATERMARK FOR `time` AS `time` - INTERVAL 1 MINUTE
);
CREATE MATERIALIZED VIEW totals AS
SELECT count(*) AS edits, count(*) FILTER (WHERE isRobot) AS robots, sum(added) AS added,
       approx_count_distinct(`user`) AS users, approx_count_distinct(channel) AS channels
FROM edits;
CREATE MATERIALIZED VIEW channels AS
SELECT channel, count(*) AS edits, count(cityName) AS placed, sum(added) AS added, sum(delta) AS delta,
       avg(added) AS mean_added, max(deleted) AS most_deleted, approx_count_distinct(`user`) AS users
FROM edits GROUP BY channel, window(`time`, '1 hour');
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing here can run without the data."""
    if not DATA.is_dir():
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=f"the shared data is not in {DATA}"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of the shared data."""
    return DATA


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A real `headrace up` over both streams."""
    from headrace.demo.server import Server, make_workspace

    folder = tmp_path_factory.mktemp("real-data")
    make_workspace(folder, DEFINITIONS)
    server = Server(folder)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def reader(server):
    """Questions to that server."""
    from headrace.demo.reader import Reader

    reader = Reader(server.url)
    yield reader
    reader.close()


@pytest.fixture(scope="session")
def headrace(server):
    """Runs a command in the server's workspace; its output."""

    def run(*arguments: str) -> str:
        command = [sys.executable, "-c", "import sys; from headrace.cli import main; sys.exit(main())", *arguments]
        result = subprocess.run(command, cwd=server.folder, capture_output=True, text=True, timeout=180, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return run
