"""Sinks through the real application: plan, apply, list, pause, page, metrics; no secret anywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.cli.app import run
from tests.surfaces.conftest import Ran, Served
from tests.waiting import wait_until

SINKS = """
CREATE SINK to_files FROM visits WITH (connector = 'files', path = 'out', format = 'json');
CREATE SINK hook FROM traffic WITH (connector = 'http', url = 'http://me:hunter2@127.0.0.1:1/hook', token = 'hunter2');
"""


@pytest.fixture
def with_sinks(applied: Path) -> Path:
    (applied / "definitions" / "sinks.sql").write_text(SINKS)
    return applied


def sink_of(served: Served, name: str) -> dict[str, Any]:
    sinks = served.http.get("/v1/sinks").json()["sinks"]
    return next(sink for sink in sinks if sink["name"] == name)


def test_plan_says_what_a_sink_does(with_sinks: Path, headrace: Callable[..., Ran]) -> None:
    out = headrace("plan", "-w", with_sinks).out
    assert "+ sink to_files  it first sends all events of visits" in out
    assert "+ sink hook  it first sends the present rows of traffic" in out
    assert "url: http://***@127.0.0.1:1/***" in out
    assert "hunter2" not in out


def test_sinks_without_a_server(with_sinks: Path, headrace: Callable[..., Ran]) -> None:
    assert headrace("sinks", "-w", with_sinks).out.startswith("no sinks")
    assert headrace("apply", "--yes", "-w", with_sinks).code == 0
    sinks = headrace("sinks", "--json", "-w", with_sinks).json
    assert [(sink["name"], sink["state"], sink["rows"]) for sink in sinks] == [
        ("hook", "stopped", 0),
        ("to_files", "stopped", 0),
    ]
    failed = headrace("sinks", "pause", "hook", "-w", with_sinks)
    assert failed.code == 1
    assert "the server is not running" in failed.err
    assert headrace("sinks", "stop", "hook", "-w", with_sinks).code == 2
    assert "retry needs the name of a sink" in headrace("sinks", "retry", "-w", with_sinks).err


def test_a_running_server(with_sinks: Path, serve: Callable[..., Served], headrace: Callable[..., Ran]) -> None:
    served = serve(with_sinks)
    assert served.http.post("/v1/apply", json={}).status_code == 200
    wait_until(lambda: sink_of(served, "to_files")["state"] == "running")
    wait_until(lambda: sink_of(served, "hook")["state"] in ("running", "stalled"))
    assert sink_of(served, "hook")["options"]["token"] == "***"
    for path in ("/v1/sinks/to_files/pause", "/v1/sinks/to_files/resume", "/v1/sinks/to_files/retry"):
        state = served.http.post(path).json()["state"]
        assert state == ("paused" if path.endswith("pause") else "running")
    missing = served.http.post("/v1/sinks/to_fils/pause")
    assert missing.status_code == 404
    assert "did you mean 'to_files'?" in missing.json()["error"]["fix"]
    out = headrace("sinks", "-w", with_sinks).out
    assert "to_files" in out
    assert headrace("sinks", "pause", "to_files", "--json", "-w", with_sinks).json[0]["state"] == "paused"
    assert "hook" in headrace("status", "-w", with_sinks).out
    with hr.connect(with_sinks) as workspace:
        assert [sink.name for sink in workspace.sinks()] == ["hook", "to_files"]
    page = served.http.get("/").text
    metrics = served.http.get("/metrics").text
    assert '<h2 id="sinks">Sinks</h2>' in page
    assert 'headrace_sink_paused{sink="to_files"} 1.0' in metrics
    assert 'headrace_sink_rows_total{sink="hook"} 0.0' in metrics
    everything = out + page + metrics + served.http.get("/v1/status").text
    assert "hunter2" not in everything
    assert "hunter2" not in (with_sinks / "test.log").read_text()


def test_a_dropped_sink_is_gone(with_sinks: Path, serve: Callable[..., Served]) -> None:
    served = serve(with_sinks)
    served.http.post("/v1/apply", json={})
    (with_sinks / "definitions" / "sinks.sql").unlink()
    plan = served.http.post("/v1/plan").json()
    assert [(change["kind"], change["what"]) for change in plan["changes"]] == [("drop", "sink"), ("drop", "sink")]
    served.http.post("/v1/apply", json={})
    assert served.http.get("/v1/sinks").json() == {"sinks": []}
    served.stop()
    assert run(["sinks", "-w", str(with_sinks)]) == 0
