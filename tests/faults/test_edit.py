"""Processes killed during an edit or a rollback: the next one completes it, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headrace.cli.app import run
from headrace.faults import VARIABLE
from headrace.server.runtime import Runtime
from headrace.workspace.settings import Workspace

from .scene import KILLED

POINTS = ("edit.after_catalog", "edit.before_commit", "edit.after_commit")
DO = """
import sys
from pathlib import Path
from headrace.workspace.settings import Workspace
from headrace.server.runtime import Runtime
runtime = Runtime.open(Workspace.open(Path(sys.argv[1])), "http://127.0.0.1")
exec(sys.argv[2])
runtime.stop()
"""


def newest(folder: Path) -> tuple[int, str, list[str]]:
    runtime = Runtime.open(Workspace.open(folder), "http://127.0.0.1")
    try:
        version, *others = runtime.definitions.versions.describe("traffic")
        assert {version.state for version in others} <= {"retired"}
        return version.version, version.state, list(version.changes)
    finally:
        runtime.stop()


def test_edits_and_a_rollback_killed(tmp_path: Path, run_python: Callable[..., None]) -> None:
    folder, name = tmp_path / "shop", "hits"
    assert run(["init", str(folder)]) == 0
    assert run(["apply", "--yes", "-w", str(folder)]) == 0
    assert newest(folder) == (1, "serving", [])
    sql = folder / "definitions" / "shop.sql"
    for number, point in enumerate(POINTS, 2):
        sql.write_text(sql.read_text().replace(f"AS {name}", f"AS seen{number}"))
        run_python(DO, str(folder), "runtime.definitions.take_over()", code=KILLED, **{VARIABLE: point})
        assert newest(folder) == (number, "serving", [f"column renamed: count(*) AS {name} → seen{number}"])
        name = f"seen{number}"
    run_python(DO, str(folder), "runtime.definitions.roll_back('traffic', 1)", code=KILLED, **{VARIABLE: POINTS[0]})
    assert newest(folder) == (5, "serving", [f"column renamed: count(*) AS {name} → hits"])
