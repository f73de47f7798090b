"""A full disk: writers get an error, acknowledged events are kept, and the server continues when there is space."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx2

from headrace.faults import VARIABLE
from tests import http

from ..server import UpServer
from ..waiting import wait_until
from ..warm import Java
from .clicks import Clicks

PAD = 60_000  # bytes of padding in each event


def wait_for(server: UpServer, what: Callable[[], object]) -> None:
    wait_until(what, 240, lambda: f"{server.get('/v1/status')} {server.log_tail()}")


def fill(file: Path) -> None:
    """Fill the free space of a disk."""
    with file.open("ab", buffering=0) as out, suppress(OSError):
        while out.write(bytes(4096)) == 4096:
            pass


def refusal(server: UpServer, clicks: Clicks) -> httpx2.Response | None:
    """The error reply to one more post; None if it is accepted."""
    try:
        clicks.post(server, strict=True)
    except httpx2.HTTPStatusError as error:
        return error.response
    return None


def test_a_really_full_disk(workspace: Path, small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(128 << 20)
    (workspace / "data").symlink_to(disk)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(64 << 20))
    server = UpServer(workspace).wait_until_ready()
    clicks = Clicks()
    assert clicks.post(server)
    clicks.check(server)

    clicks.pad = PAD
    reply: httpx2.Response | None = None

    def is_full() -> bool:
        """Failed writes of Spark free space again, so the disk is filled until they no longer do."""
        nonlocal reply
        reply = refusal(server, clicks)
        if reply is not None:
            fill(disk / "filling")
        return reply is not None and http.get(f"{server.url}/health").status_code == 503

    wait_for(server, is_full)
    assert clicks.posts < 200
    assert reply is not None
    assert reply.status_code == 507
    error = reply.json()["error"]
    assert error["code"] == "disk_full"
    assert f"the disk of '{workspace}/data/journal/clicks' is full" in error["message"]
    assert "nothing of this request was stored" in error["fix"]
    assert "is full" in http.get(f"{server.url}/health").json()["reason"]
    (total,) = server.rows("total")  # answers continue
    assert total["n"] >= 20
    wait_for(server, is_full)  # and it continues to refuse
    assert server.process.poll() is None

    ballast.unlink()
    (disk / "filling").unlink()
    wait_for(server, lambda: refusal(server, clicks) is None)
    wait_for(server, lambda: http.get(f"{server.url}/health").json()["status"] == "ok")
    clicks.pad = 0
    assert clicks.post(server)
    clicks.check(server)
    assert server.stop() == 0


def test_a_full_disk_at_each_point(java: Java, workspace: Path) -> None:
    """One server has a full disk at one point after the other, and continues each time."""
    fault = java.worker_fault  # of Spark's workers, and of the server
    # Without the fused lane: a full disk there only lets the other one do its work.
    variables = {VARIABLE: f"@{fault}", "HEADRACE_FUSED_LANE": "false"}
    server = java.server(workspace, **variables).wait_until_ready()
    clicks = Clicks()
    for point in ("append.in_worker", "maintain.before_partials", "store.before_commit"):
        fault.write_text(f"{point}=ENOSPC")
        assert clicks.post(server)  # the journal has room
        wait_for(server, lambda: "is full" in str(server.status_of("clicks")["error"]))
        assert not any(view["stalled"] for view in server.get("/v1/status")["views"])
        fault.unlink()
        clicks.check(server)
        wait_for(server, lambda: server.status_of("clicks")["error"] is None)
    lake = workspace / "data" / "lake" / "clicks"
    assert len(list(lake.glob("_dead=*/*.parquet"))) == server.status_of("clicks")["commits"]  # no file is left over
    assert server.stop() == 0
