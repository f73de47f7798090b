"""A workspace that is kept in the tests, and what is asked of it: the parts of each reply that no clock changes."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.server import UpServer
from tests.waiting import wait_until

HERE = Path(__file__).parent
NAME = "shop"  # of its folder
Ask = Callable[..., Any]  # runs a command with --json and gives what it printed
SQL = "SELECT page, sum(hits) AS hits, max(window_end) AS last FROM traffic GROUP BY page ORDER BY page"
VIEWS = ("traffic", "totals", "revenue")


def views(ask: Ask) -> dict[str, Any]:
    """The answers of all views: as they are by default, composed, and by SQL."""
    replies = {
        "traffic": ask("ask", "traffic", "--limit", "all", "--oldest-first"),
        "traffic by hour": ask("ask", "traffic", "--window", "1h", "--limit", "all", "--oldest-first"),
        "traffic in all": ask("ask", "traffic", "--by", "", "--window", "all"),
        "totals": ask("ask", "totals"),
        "revenue": ask("ask", "revenue"),
    }
    answers = {name: {"version": reply["version"], "rows": reply["rows"]} for name, reply in replies.items()}
    return {**answers, "sql": ask("sql", SQL)["rows"]}


def versions(ask: Ask) -> dict[str, Any]:
    """The versions of each view, newest first."""
    names = ("version", "state", "replaces", "has_rows")
    return {view: [{name: one[name] for name in names} for one in ask("versions", view)] for view in VIEWS}


def streams(ask: Ask) -> dict[str, Any]:
    """How much the lake of each stream holds, and its dead letters."""
    counts = {one["name"]: {name: one[name] for name in ("events", "dead_letters")} for one in ask("streams")}
    letters = ask("dead-letters", "visits")["dead_letters"]
    return {**counts, "dead letters": [{name: one[name] for name in ("reason", "value")} for one in letters]}


def sent(server: UpServer, name: str) -> list[dict[str, Any]]:
    """How far a file was sent: each content that came under its name."""
    contents = server.get("/v1/streams/visits/files", name=name)["contents"]
    return [{key: one[key] for key in ("mark", "first", "events")} for one in contents]


def archive(name: str) -> Path:
    return HERE / f"{name}.tar.xz"


def unpack(name: str, target: Path) -> Path:
    """The workspace, in a new folder."""
    with tarfile.open(archive(name)) as tar:
        tar.extractall(target, filter="data")
    return target / NAME


def wait_for_all(server: UpServer) -> None:
    """Until the lake has all of each stream, and each view has all of the lake."""

    def is_done() -> bool:
        status = server.get("/v1/status")
        waiting = [stream["name"] for stream in status["streams"] if stream["backlog_bytes"]]
        return not waiting and all(view["applied_to"] == view["commits"] for view in status["views"])

    wait_until(is_done, details=server.log_tail)
