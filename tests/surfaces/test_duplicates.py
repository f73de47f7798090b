"""Duplicates as users see them: `headrace streams`, dead letters, HTTP, metrics and the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.api.connect import connect
from headrace.cli.app import run
from headrace.define.catalog import load
from headrace.workspace.settings import Workspace

from ..unit.lake.unique_lake import Sent, UniqueLake
from .conftest import Ran, Served

SQL = """
CREATE STREAM payments (id STRING, x INT, at TIMESTAMP NOT NULL, WATERMARK FOR at, UNIQUE (id, x) WITHIN 1 HOUR);
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM payments;
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A stream with two events, a duplicate and one that cannot be parsed."""
    folder = tmp_path / "shop"
    (folder / "definitions").mkdir(parents=True)
    (folder / "headrace.toml").write_text("")
    (folder / "definitions" / "payments.sql").write_text(SQL)
    assert run(["apply", "--yes", "-w", str(folder)]) == 0
    opened = Workspace.open(folder)
    places = {"lake": opened.lake("payments"), "journal": opened.journal("payments")}
    lake = UniqueLake(tmp_path, load(opened.definitions).streams["payments"], **places)
    lake.add(Sent("a", 0).line(), Sent("b", 0).line(), Sent("a", 1).line(), b"broken")
    lake.close()
    return folder


def test_duplicates_directly_from_the_folder(workspace: Path, headrace: Callable[..., Ran]) -> None:
    (stream,) = headrace("streams", "--json", "-w", workspace).json
    assert stream["unique"] == {"columns": ["id", "x"], "within_ms": 3_600_000}
    assert (stream["events"], stream["dead_letters"], stream["duplicates"]) == (2, 2, 1)
    shown = headrace("streams", "-w", workspace).out
    assert "unique by id, x within 1 hour" in headrace("streams", "payments", "-w", workspace).out + shown
    letters = headrace("dead-letters", "payments", "--reason", "duplicate", "--json", "-w", workspace).json
    (letter,) = letters["dead_letters"]
    assert letter["reason"].startswith("duplicate, found (id, x) = ('a', '0'), first at position ")
    assert letter["value"] == Sent("a", 1).line().decode()
    counts = headrace("dead-letters", "payments", "count", "--json", "-w", workspace).json
    assert {"duplicate": 1}.items() <= {each["reason"]: each["count"] for each in counts}.items()


def test_duplicates_through_a_server(workspace: Path, serve: Callable[..., Served]) -> None:
    served = serve(workspace)
    (stream,) = served.http.get("/v1/streams").json()["streams"]
    assert (stream["unique"]["columns"], stream["duplicates"]) == (["id", "x"], 1)
    assert 'headrace_duplicates_total{stream="payments"} 1.0' in served.http.get("/metrics").text
    assert "duplicates" in served.http.get("/").text
    reply = served.http.post("/v1/streams/payments/events", content=Sent("a", 2).line())
    assert (reply.json()["accepted"], reply.json()["refused"]) == (1, []), "the producer need not know"
    with connect(served.url) as connection:
        (status,) = connection.verbs.streams()
        assert status.unique is not None
        assert status.duplicates == 1
