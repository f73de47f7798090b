"""What `up` proposes to do first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headrace.cli.run_server import _hints
from tests.surfaces.conftest import Served


def test_the_stream_of_the_hint_takes_events(applied: Path, serve: Callable[..., Served]) -> None:
    (applied / "definitions" / "a.sql").write_text("CREATE STREAM a_first AS SELECT page, at FROM visits;\n")
    served = serve(applied)
    assert served.http.post("/v1/apply", json={}).status_code == 200
    assert served.verbs.streams()[0].name == "a_first"
    assert f"  headrace send -w {applied} visits FILE --wait" in _hints(served.runtime)
