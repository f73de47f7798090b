"""A Python function that hangs stalls its view alone, with function, line and event; a corrected one catches up."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.server import COMMAND, UpServer
from tests.waiting import wait_until
from tests.warm import Java

CODE = """
import time
import headrace as hr
import pyarrow as pa
import pyarrow.compute as pc


@hr.udf("who STRING", gives="STRING")
def checked(who):
    names = who.to_pylist()
    if "hang" in names:
        {then}
    return pa.array([name and name.upper() for name in names])


@hr.udaf("x BIGINT", partial="BIGINT", gives="BIGINT")
class slow_sum:
    def lift(self, x):
        return x

    def merge(self, a, b):
        sums = pc.add(a, b)
        if max(sums.to_pylist()) > 3:
            {then}
        return sums

    def present(self, partials):
        return partials
"""
VIEWS = """
CREATE MATERIALIZED VIEW bad AS SELECT checked(who) AS name, count(*) AS n FROM clicks GROUP BY checked(who);
CREATE MATERIALIZED VIEW merged AS SELECT slow_sum(weight) AS n FROM clicks;
"""


def test_a_function_that_hangs_stalls_its_view_alone(java: Java, workspace: Path) -> None:
    code, sql = workspace / "definitions" / "checked.py", workspace / "definitions" / "bad.sql"
    code.write_text(CODE.format(then="time.sleep(3600)"))
    sql.write_text(VIEWS)
    server = java.server(workspace, HEADRACE_FUNCTION_TIMEOUT_S="1").wait_until_ready()
    server.post("clicks", [click(1, "anna"), click(2, "hang"), click(3, "ben")], None)
    wait_until(lambda: total(server) == 3, details=server.log_tail)

    def stalled(name: str = "bad") -> str:
        views: list[dict[str, Any]] = server.get("/v1/views")["views"]
        return next(view["stalled"] or "" for view in views if view["name"] == name)

    wait_until(lambda: '"who":"hang"' in stalled().replace(" ", ""), details=stalled)
    assert "function 'checked' did not return within 1 s (it is at checked.py:" in stalled()
    assert "setting function_timeout_s" in stalled()
    server.post("clicks", [click(4, "carl")], None)
    wait_until(lambda: total(server) == 4, details=server.log_tail)
    late_merge = "merge of aggregate 'slow_sum' did not return within 1 s (it is at checked.py:"
    wait_until(lambda: late_merge in stalled("merged"), details=lambda: stalled("merged"))
    server.post("clicks", [click(5, "carl")], None)
    wait_until(lambda: total(server) == 5, details=server.log_tail)

    code.write_text(CODE.format(then="pass"))
    assert run("apply", "--yes", folder=workspace) == 0
    wait_until(lambda: counts(server) == {"ANNA": 1, "HANG": 1, "BEN": 1, "CARL": 2}, details=stalled)
    wait_until(lambda: [row["n"] for row in server.rows("merged")] == [5], details=server.log_tail)
    assert server.stop() == 0


def click(id: int, who: str) -> dict[str, Any]:
    return {"id": id, "who": who, "weight": 1, "at": "2026-03-01T12:00:00Z"}


def total(server: UpServer) -> int:
    return int(next((row["n"] for row in server.rows("total")), 0))


def counts(server: UpServer) -> dict[str, int]:
    return {row["name"]: row["n"] for row in server.rows("bad")}


def run(*arguments: str, folder: Path) -> int:
    return subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, check=False).returncode
