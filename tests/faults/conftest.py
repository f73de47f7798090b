"""A workspace with one stream and two views, and a Java for servers that are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..server import UpServer
from .warm import Java

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
    for server in UpServer.started:
        server.kill()
    UpServer.started.clear()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "clicks.sql").write_text(DEFINITIONS)
    (tmp_path / "headrace.toml").write_text("lease_s = 2\nrehearse = false\n")
    return tmp_path


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    """Outlives the servers that run on it."""
    one = Java(tmp_path_factory.mktemp("java"))
    yield one
    one.close()
