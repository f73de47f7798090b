"""What a server says of its views and of itself, as plain values for CLI and HTTP."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from headrace.define.model import View
from headrace.format import iso_us
from headrace.plan.edits import classify
from headrace.store.base import Audit, Snapshot, State, Version

AUDITS_SHOWN = 10  # of a view, in its status; `headrace audit` has them all


@dataclass(frozen=True)
class Layers:
    """What the two layers of a serving version hold, and what came of comparing them."""

    rows: tuple[int, int]  # of the batch layer and of the speed layer
    events: tuple[int, int]
    audits: Sequence[Audit]  # of the view, newest first


def read_layers(snapshot: Snapshot, versions: Iterable[Version]) -> dict[str, Layers]:
    """The layers of each view that is served, by its name."""
    return {
        v.view.name: Layers(snapshot.count(v), _events(snapshot, v), snapshot.audits(v.view.name, AUDITS_SHOWN))
        for v in versions
        if v.serving
    }


def _events(snapshot: Snapshot, version: Version) -> tuple[int, int]:
    return sum(table.events for table in version.batch), snapshot.speed_events(version)


def describe_view(
    view: View,
    versions: Iterable[Version],
    commits: int | None,
    freshness: tuple[int | None, str | None],
    lag_bytes: int | None = None,
    layers: Layers | None = None,
    building: dict[str, Any] | None = None,
    audits_run: int = 0,
) -> dict[str, Any]:
    """A view as `headrace views` and HTTP show it."""
    own = [version for version in versions if version.view.name == view.name]
    serving = next((version for version in own if version.serving), None)
    stalled = next((version.stalled for version in own if version.live and version.stalled), None)
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
        "rows": sum(layers.rows) if layers else None,
        "batch_rows": layers.rows[0] if layers else None,
        "speed_rows": layers.rows[1] if layers else None,
        "batch_events": layers.events[0] if layers else None,
        "speed_events": layers.events[1] if layers else None,
        "batch_tables": len(serving.batch) if serving else None,
        "horizon": serving.horizon if serving else None,
        "newest_event": iso_us(serving.newest_us) if serving else None,
        "settled_until": _settled_until(serving) if serving and view.window else None,
        "commits": commits,
        "lag_bytes": lag_bytes,
        "freshness_ms": freshness[0],
        "freshness_reason": freshness[1],
        "stalled": stalled,
        "alarm": serving.alarm if serving else None,
        **_describe_audits(view, serving, layers.audits if layers else ()),
        "audits_run": audits_run,
        "versions": {state: Counter(version.state for version in own)[state] for state in get_args(State)},
        "building": building,
    }


def _describe_audits(view: View, serving: Version | None, audits: Sequence[Audit]) -> dict[str, Any]:
    """The last comparisons; what the newest one of the serving version found in each column."""
    last = next((audit for audit in audits if serving and audit.number == serving.number), None)
    drift = None
    if last is not None:
        columns = ("events", "corrections", *(column.name for column in view.columns))
        drift = {**dict.fromkeys(columns, 0), **{off.column: off.rows for off in last.drift}}
    return {
        "last_audit": describe_audit(last) if last else None,
        "drift": drift,  # rows of the last audit for which the layers disagree, by column
        "audits": [describe_audit(audit) for audit in audits],
    }


def describe_versions(snapshot: Snapshot, view: str) -> list[dict[str, Any]]:
    """The versions of a view as `headrace versions` and HTTP show them, newest first."""
    own = {version.number: version for version in snapshot.versions() if version.view.name == view}
    return [_describe_version(snapshot, own[number], own.get(own[number].replaces or 0)) for number in sorted(own)][
        ::-1
    ]


def _describe_version(snapshot: Snapshot, version: Version, earlier: Version | None) -> dict[str, Any]:
    """A version and what it changed; `earlier` is the one that it replaced, if that is still kept."""
    batch_rows, speed_rows = snapshot.count(version)
    edit = classify(earlier.view, version.view, (earlier.patience_ms, version.patience_ms)) if earlier else None
    return {
        "version": version.number,
        "state": version.state,
        "since": iso_us(version.changed_at_us),
        "fingerprint": version.fingerprint,
        "replaces": version.replaces,
        "changed_from": earlier.number if earlier else None,
        "changes": list(edit.texts) if edit else [],
        "horizon": version.horizon,
        "next_horizon": version.next_horizon,
        "built_to": version.built_to,
        "applied_to": version.applied_to,
        "batch_tables": len(version.batch),
        "batch_events": sum(table.events for table in version.batch),
        "speed_events": snapshot.speed_events(version),
        "batch_rows": batch_rows,
        "speed_rows": speed_rows,
        "has_rows": version.home is not None,
        "stalled": version.stalled,
        "alarm": version.alarm,
    }


def warnings(versions: Iterable[Version]) -> list[str]:
    """What somebody has to look at although events flow."""
    return [f"view '{v.view.name}': {v.alarm}" for v in versions if v.serving and v.alarm]


def describe_audit(audit: Audit) -> dict[str, Any]:
    """An audit as `headrace audit` and HTTP show it."""
    return {
        "version": audit.number,
        "at": iso_us(audit.at_us),
        "from_commit": audit.from_commit,
        "to_commit": audit.to_commit,
        "events": audit.events,
        "rows": audit.rows,
        "took_ms": audit.took_ms,
        "agreed": audit.agreed,
        "drift": [{"column": d.column, "rows": d.rows, "example": d.example} for d in audit.drift],
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
