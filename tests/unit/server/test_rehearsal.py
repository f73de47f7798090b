"""The rehearsal ends when there are real events, or when the server stops."""

from __future__ import annotations

from pathlib import Path

from headrace.ingest.formats.format_detection import FileLayout, Format
from headrace.server.runtime import Runtime
from headrace.tools.demo.shop_server import make_workspace
from headrace.workspace.settings import Workspace

DEFINITIONS = """CREATE STREAM visits (page STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW traffic AS SELECT page, count(*) AS hits FROM visits GROUP BY page;
"""
EVENT = b'{"page":"/home","at":"2026-03-01T12:00:00Z"}\n'


def test_waiting_events_and_a_stop_end_it(tmp_path: Path) -> None:
    make_workspace(tmp_path, DEFINITIONS)
    runtime = Runtime.open(Workspace.open(tmp_path), "http://127.0.0.1:1")
    try:
        runtime.definitions.take_over()
        assert not runtime._ends_rehearsal()
        runtime.lookup.intake("visits").take(EVENT, layout=FileLayout(Format.NDJSON), key=None, keep_bad=False).result()
        assert runtime._ends_rehearsal()
    finally:
        runtime.stop()
    assert runtime._ends_rehearsal()
