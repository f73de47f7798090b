"""A Python function that hangs stalls its view alone, with function, line and event; a corrected one catches up."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.server import COMMAND, UpServer
from tests.waiting import wait_until
from tests.warm import Java

LIMIT_S = 4  # long enough for calls that do not hang, on a busy machine
CODE = """
import os
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


@hr.udf("who STRING", gives="STRING")
def ending(who):
    if "exit" in who.to_pylist():
        os._exit(3)
    return who


@hr.udaf("x BIGINT", partial="BIGINT", gives="BIGINT")
class late_result:
    def lift(self, x):
        return x

    def merge(self, a, b):
        return pc.add(a, b)

    def present(self, partials):
        if max(partials.to_pylist()) > 3:
            {then}
        return partials


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
CREATE MATERIALIZED VIEW shown AS SELECT late_result(weight) AS n FROM clicks;
"""
ENDED = "CREATE MATERIALIZED VIEW ended AS SELECT ending(who) AS name, count(*) AS n FROM clicks GROUP BY ending(who);"


@pytest.mark.timeout(1800)  # some two minutes, several times as long on a busy machine
def test_a_function_that_hangs_stalls_its_view_alone(java: Java, workspace: Path) -> None:
    code, sql = workspace / "definitions" / "checked.py", workspace / "definitions" / "bad.sql"
    code.write_text(CODE.format(then="time.sleep(3600)"))
    sql.write_text(VIEWS)
    server = java.server(workspace, HEADRACE_FUNCTION_TIMEOUT_S=str(LIMIT_S)).wait_until_ready()
    server.post("clicks", [click(1, "anna"), click(2, "hang"), click(3, "ben")], None)
    wait_until(lambda: total(server) == 3, details=server.log_tail)

    def stalled(name: str = "bad") -> str:
        views: list[dict[str, Any]] = server.get("/v1/views")["views"]
        return next(view["stalled"] or "" for view in views if view["name"] == name)

    wait_until(lambda: '"who":"hang"' in stalled().replace(" ", ""), details=stalled)
    assert f"function 'checked' did not return within {LIMIT_S} s (it is at checked.py:" in stalled()
    assert "setting function_timeout_s" in stalled()
    server.post("clicks", [click(4, "carl")], None)
    wait_until(lambda: total(server) == 4, details=server.log_tail)
    late_merge = f"merge of aggregate 'slow_sum' did not return within {LIMIT_S} s (it is at checked.py:"
    wait_until(lambda: late_merge in stalled("merged"), details=lambda: stalled("merged"))
    server.post("clicks", [click(5, "carl")], None)
    wait_until(lambda: total(server) == 5, details=server.log_tail)

    answer = server.http.get(f"{server.url}/v1/views/shown")
    assert f"present of aggregate 'late_result' did not return within {LIMIT_S} s (it is at checked.py:" in answer.text
    assert total(server) == 5, "others answer"

    code.write_text(CODE.format(then="pass"))
    assert apply(workspace).returncode == 0
    wait_until(lambda: counts(server) == {"ANNA": 1, "HANG": 1, "BEN": 1, "CARL": 2}, details=stalled)
    wait_until(lambda: [row["n"] for row in server.rows("merged")] == [5], details=server.log_tail)
    assert [row["n"] for row in server.rows("shown")] == [5]
    check_trial_and_build(server, workspace, code)
    check_a_worker_that_ends(server, workspace, sql)

    sql.write_text("")
    assert apply(workspace).returncode == 0
    server.post("clicks", [click(9, "hang")], None)
    wait_until(lambda: total(server) == 9, details=server.log_tail)
    assert {view["name"]: view["stalled"] for view in server.get("/v1/views")["views"]} == {
        "per_minute": None,
        "total": None,
    }
    assert server.get("/health")["status"] == "ok"
    assert server.stop() == 0


def check_trial_and_build(server: UpServer, workspace: Path, code: Path) -> None:
    """Code that hangs on a new event is refused by the trial; on an old one it ends the build, and others go on."""
    server.post("clicks", [click(6, "hang")], None)
    wait_until(lambda: counts(server).get("HANG") == 2, details=server.log_tail)
    code.write_text(CODE.format(then="time.sleep(7200)"))  # other code: no version that was stalled has it
    refused = apply(workspace)
    assert refused.returncode == 2
    assert f"function 'checked' did not return within {LIMIT_S} s" in refused.stderr
    server.post("clicks", [click(7, "ben")], None)  # the newest events are tried
    wait_until(lambda: counts(server).get("BEN") == 2, details=server.log_tail)
    built = apply(workspace)
    assert "view 'bad': version 3 cannot be completed" in built.stderr
    assert f"function 'checked' did not return within {LIMIT_S} s (it is at checked.py:" in built.stderr
    assert counts(server) == {"ANNA": 1, "HANG": 2, "BEN": 2, "CARL": 2}, "the version before it serves"
    assert total(server) == 7


def check_a_worker_that_ends(server: UpServer, workspace: Path, sql: Path) -> None:
    """A view whose function ends its process is stalled alone, with the name of the function and the event."""
    sql.write_text(ENDED)
    accepted = apply(workspace)
    assert accepted.returncode == 0, accepted.stderr
    wait_until(lambda: sum(row["n"] for row in server.rows("ended")) == 7, details=server.log_tail)
    server.post("clicks", [click(8, "exit")], None)
    wait_until(lambda: total(server) == 8, details=server.log_tail)

    def stalled() -> str:
        return next(str(view["stalled"]) for view in server.get("/v1/views")["views"] if view["name"] == "ended")

    wait_until(lambda: '"who":"exit"' in stalled().replace(" ", ""), details=stalled)
    assert "a Python worker ended in a call of 'ending'" in stalled()


def click(id: int, who: str) -> dict[str, Any]:
    return {"id": id, "who": who, "weight": 1, "at": "2026-03-01T12:00:00Z"}


def total(server: UpServer) -> int:
    return int(next((row["n"] for row in server.rows("total")), 0))


def counts(server: UpServer) -> dict[str, int]:
    return {row["name"]: row["n"] for row in server.rows("bad")}


def apply(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, "apply", "--yes"], cwd=folder, capture_output=True, text=True, check=False)
