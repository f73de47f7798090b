"""Small sizes for every part of the benchmark, and servers that start in seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench.ours import answers, builds, edits, history, lake, measure, run, start, steady
from bench.ours.events import arrays

from headrace.tools.demo import demo_run as demo

from ..server import UpServer
from ..warm import Java


class QuickServer:
    """A warm server with the methods of the benchmark's own."""

    def __init__(self, java: Java, folder: Path) -> None:
        self._server = java.server(folder)
        self.folder, self.log = folder, self._server.log
        self.pid = self._server.process.pid

    @property
    def url(self) -> str:
        return self._server.url

    @url.setter
    def url(self, url: str) -> None:
        self._server.url = url

    def wait_until_ready(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._server.wait_until_ready()

    def check(self) -> None:
        assert self._server.process.poll() is None, self._server.log_tail()

    def stop(self) -> bool:
        return self._server.stop() == 0


@pytest.fixture
def small(java: Java, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sizes that only show that everything works."""
    two_edits = edits.edits()[:2]
    for module in (measure, demo, start):
        monkeypatch.setattr(module, "ShopServer", lambda folder: QuickServer(java, folder))
    for module, name, value in (
        (measure, "WARM_S", 1.0),
        (measure, "FLOW", 2_000),
        (measure, "arrays", lambda count, size: arrays(min(count, 20_000), size)),
        (answers, "EVENTS", 20_000),
        (run, "COMMITS", 50),
        (lake, "SCANS", 2),
        (history, "COMMIT_ROWS", 2_000),
        (history, "VISITORS", 50),
        (builds, "COMMIT_ROWS", 2_000),
        (builds, "VISITORS", 50),
        (builds, "ROUNDS", 1),
        (builds, "BEATS", 1),
        (builds, "ANSWERS", 10),
        (steady, "FLOW", 2_000),
        (steady, "FLOW_S", 3.0),
        (steady, "VIEW", steady.VIEW.replace(f"{steady.BEAT_S} SECONDS", "1 HOUR")),
        (edits, "HISTORY", 10_000),
        (edits, "FLOW", 2_000),
        (edits, "QUERIES", 20),
        (edits, "WARM_S", 1.0),
        (edits, "QUIET_S", 2.0),
        (edits, "SETTLE_S", 0.5),
        (edits, "edits", lambda: two_edits),
    ):
        monkeypatch.setattr(module, name, value)
    yield
    UpServer.kill_all()
