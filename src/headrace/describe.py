"""What a server says of its views and of itself, as plain values for CLI and HTTP."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headrace.define.model import View
from headrace.readable import iso_us
from headrace.store.base import Version


def describe_view(
    view: View,
    versions: Iterable[Version],
    commits: int | None,
    freshness: tuple[int | None, str | None],
    lag_bytes: int | None = None,
    rows: int | None = None,
) -> dict[str, Any]:
    """A view as `headrace views` and HTTP show it."""
    own = [version for version in versions if version.view.name == view.name]
    serving = next((version for version in own if version.serving), None)
    following = next((version for version in own if not version.serving), None)
    stalled = next((version.stalled for version in own if version.stalled), None)
    return {
        "name": view.name,
        "stream": view.stream,
        "keys": [key.name for key in view.keys],
        "columns": [
            {"name": column.name, "aggregate": column.aggregate.name, "type": str(column.aggregate.type)}
            for column in view.columns
        ],
        "window_ms": view.window.size_ms if view.window else None,
        "every_ms": view.window.slide_ms if view.window else None,
        "where": view.where.sql if view.where else None,
        "version": serving.number if serving else None,
        "applied_to": serving.applied_to if serving else None,
        "rows": rows,
        "newest_event": iso_us(serving.newest_us) if serving else None,
        "settled_until": _settled_until(serving) if serving and view.window else None,
        "commits": commits,
        "lag_bytes": lag_bytes,
        "freshness_ms": freshness[0],
        "freshness_reason": freshness[1],
        "stalled": stalled,
        "building": (
            {"version": following.number, "applied_to": following.applied_to, "commits": commits} if following else None
        ),
    }


def _settled_until(version: Version) -> str | None:
    return None if version.newest_us is None else iso_us(version.newest_us - version.patience_ms * 1000)


def memory_mb() -> int:
    """Resident memory of this process and all that it started; pages that they share count once each."""
    tree, seen = [os.getpid()], 0
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended meanwhile
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    total_kb = 0
    while seen < len(tree):
        pid = tree[seen]
        seen += 1
        tree += children.get(pid, [])
        total_kb += _resident_kb(pid)
    return total_kb // 1024


def _resident_kb(pid: int) -> int:
    """The proportional share where the kernel tells it, since forked workers share most of their pages."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
