"""A second `up` is refused; a paused writer that wakes after another took over commits nothing and stops."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from pathlib import Path

import httpx2

from headrace.workspace.lease_holder import live_holder

from ..server import COMMAND, UpServer
from ..warm import Java
from .clicks import Clicks


def test_paused_writer_that_wakes_commits_nothing(java: Java, workspace: Path) -> None:
    clicks = Clicks()
    first = UpServer(workspace).wait_until_ready()
    refuse_second(workspace, first)
    for _ in range(20):
        assert clicks.post(first)
    # Paused while it works: some of these posts are in the journal and not in the lake.
    first.process.send_signal(signal.SIGSTOP)
    while live_holder(workspace / "data" / "lease.json"):
        time.sleep(0.05)
    second = java.server(workspace).wait_until_ready()
    for _ in range(5):
        assert clicks.post(second)
    clicks.check(second)
    commits = second.status_of("clicks")["commits"]

    outcome: list[object] = []
    events = [{"id": 10**6, "at": "2026-04-01T10:00:00Z"}]
    late = threading.Thread(target=lambda: outcome.append(_try(first, events)))
    late.start()
    first.process.send_signal(signal.SIGCONT)
    late.join(180)
    assert outcome == ["not acknowledged"]
    assert first.process.wait(180) == 3, first.log_tail()
    assert "taken" in first.log_tail()

    assert second.status_of("clicks")["commits"] == commits
    assert clicks.post(second)
    clicks.check(second)
    assert second.stop() == 0


def refuse_second(workspace: Path, first: UpServer) -> None:
    """A second `up` fails and names the first."""
    result = subprocess.run([*COMMAND, "up", "--port", "0"], cwd=workspace, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert f"process {first.process.pid} at {first.url}" in result.stderr
    assert "Traceback" not in result.stderr


def _try(server: UpServer, events: list[dict[str, object]]) -> object:
    try:
        return server.post("clicks", events, "late")
    except httpx2.HTTPError:
        return "not acknowledged"
