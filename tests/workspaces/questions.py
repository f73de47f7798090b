"""What is asked of a kept workspace, by the command line: the parts of each reply that no clock changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
