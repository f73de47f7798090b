"""Describes views as users see them: columns, layers, lanes, builds, audits and freshness."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar, get_args

from headrace.define.fingerprint import aggregate_id
from headrace.define.model import Shape, Stream, View, Window
from headrace.define.outputs import outputs_of, written, written_order
from headrace.engine.duckdb_relations import refuse_duckdb
from headrace.format import freshness, iso_us
from headrace.language.user_functions import plain
from headrace.serve.freshness import Age, Fresh
from headrace.server.running_stream import BuildProgress, Lanes
from headrace.server.status import (
    AuditStatus,
    BuildStatus,
    ColumnStatus,
    DriftStatus,
    ViewStatus,
)
from headrace.store.store_contract import Audit, Snapshot
from headrace.store.version import State, Version, VersionId
from headrace.workspace.settings import Settings

Number = TypeVar("Number", int, float)

AUDITS_SHOWN = 10  # of a view, in its status; `headrace audit` has them all
FUSED_LANE_OFF = "the setting fused_lane is false"
NO_LANES: Lanes = MappingProxyType({})


@dataclass(frozen=True)
class LayerCounts:
    """What the two layers of a serving version hold, and what came of comparing them."""

    cells: int  # of both
    rows: tuple[int, int]  # of the batch layer and of the speed layer
    events: tuple[int, int]
    corrections: int
    audits: Sequence[Audit]  # of the view, newest first


def read_layers(snapshot: Snapshot, versions: Iterable[Version]) -> dict[str, LayerCounts]:
    """The layers of each view that is served, by its name."""
    return {
        v.view.name: LayerCounts(
            snapshot.count_cells(v),
            snapshot.count(v),
            _events(snapshot, v),
            snapshot.corrections(v),
            snapshot.audits(v.view.name, AUDITS_SHOWN),
        )
        for v in versions
        if v.serving
    }


def _events(snapshot: Snapshot, version: Version) -> tuple[int, int]:
    return sum(table.events for table in version.batch), snapshot.speed_events(version)


def describe_view(
    view: View,
    versions: Iterable[Version],
    commits: int | None,
    fresh: Fresh,
    lag_bytes: int | None = None,
    layers: LayerCounts | None = None,
    building: BuildStatus | None = None,
    audits_run: int = 0,
    lanes: Lanes = NO_LANES,
) -> ViewStatus:
    """A view as `headrace views` and HTTP show it."""
    own = [version for version in versions if version.view.name == view.name]
    serving = next((version for version in own if version.serving), None)
    stalled = next((version.stalled for version in own if version.live and version.stalled), None)
    states = Counter(version.state for version in own)
    audits = layers.audits if layers else ()
    last = next((audit for audit in audits if serving and audit.number == serving.number), None)
    lane, lane_reason = lane_of(serving, lanes)
    shape = view.shape or Shape()
    spans = _spans(view.window)
    return ViewStatus(
        name=view.name,
        stream=", ".join(view.streams) if view.over is None else view.over.table,
        over=view.over.table if view.over else None,
        keys=tuple(key.name for key in view.keys),
        columns=tuple(_describe_columns(view)),
        window_ms=spans[0],
        every_ms=spans[1],
        window_text=view.window.words if view.window else None,
        calendar=bool(view.window and view.window.calendar),
        sessions=view.has_sessions,
        where=plain(view.where.sql) if view.where else None,
        having=plain(written(view, shape.having)) if shape.having else None,
        order_by=plain(written_order(view, shape.order)) or None,
        limit=shape.limit,
        version=serving.number if serving else None,
        applied_to=serving.total("applied_to") if serving else None,
        rows=layers.cells if layers else None,
        batch_rows=layers.rows[0] if layers else None,
        speed_rows=layers.rows[1] if layers else None,
        batch_events=layers.events[0] if layers else None,
        speed_events=layers.events[1] if layers else None,
        on_time=sum(layers.events) - layers.corrections if layers else None,
        corrections=layers.corrections if layers else None,
        batch_tables=len(serving.batch) if serving else None,
        horizon=serving.total("horizon") if serving else None,
        newest_event=iso_us(serving.newest_us) if serving else None,
        settled_until=iso_us(serving.settled_us) if serving and view.window else None,
        commits=commits,
        lag_bytes=lag_bytes,
        freshness_ms=fresh.ms,
        freshness_reason=fresh.reason,
        lane=lane,
        lane_reason=lane_reason,
        stalled=stalled,
        alarm=serving.alarm if serving else None,
        last_audit=describe_audit(last) if last else None,
        drift=_drift(view, last) if last else None,
        audits=tuple(describe_audit(audit) for audit in audits),
        audits_run=audits_run,
        versions={state: states[state] for state in get_args(State)},
        building=building,
    )


def _describe_columns(view: View) -> Iterator[ColumnStatus]:
    """The columns of answers, each with its aggregate, or its expression over aggregates."""
    aggregates = {aggregate_id(column.aggregate): column.aggregate for column in view.columns}
    for output in outputs_of(view):
        aggregate = aggregates.get(output.expression.sql)
        if aggregate is not None:
            yield ColumnStatus(output.name, plain(aggregate.name), str(aggregate.type))
        else:
            expression = output.expression
            yield ColumnStatus(output.name, plain(written(view, expression)), str(expression.type))


def _drift(view: View, audit: Audit) -> dict[str, int]:
    """In how many rows the layers disagree, for each column."""
    columns = ("events", "corrections", *(column.name for column in view.columns))
    return {**dict.fromkeys(columns, 0), **{off.column: off.rows for off in audit.drift}}


def lanes_by_definition(settings: Settings, stream: Stream, versions: Iterable[Version]) -> Lanes:
    """The lanes that update versions of a stream, as far as settings and definitions tell."""
    return {
        version.id: refuse_duckdb(stream, version.view) if settings.fused_lane else FUSED_LANE_OFF
        for version in versions
        if version.reads(stream.name) and version.moves and version.view.fits(stream)
    }


def join_freshness(ages: Mapping[str, Age]) -> Fresh:
    """The freshness of a version from that of its base streams: the oldest age; of several streams, the age of each."""
    if len(ages) == 1:
        (age,) = ages.values()
        return Fresh(*age, ages)
    unknown = any(age_ms is None for age_ms, _ in ages.values())
    oldest_ms = None if unknown else max(age_ms or 0 for age_ms, _ in ages.values())
    if oldest_ms == 0:
        return Fresh(0, None, ages)
    # The stream that is furthest behind first.
    order = sorted(ages.items(), key=lambda item: -(float("inf") if item[1][0] is None else item[1][0]))
    reason = "; ".join(f"stream '{name}': {freshness(*age)}" for name, age in order)
    return Fresh(oldest_ms, reason, ages)


def join_lanes(parts: Iterable[Lanes]) -> Lanes:
    """The lanes of several streams. A version that Spark updates in one of them has that reason."""
    joined: dict[VersionId, str | None] = {}
    for part in parts:
        for version, reason in part.items():
            joined[version] = joined.get(version) or reason
    return joined


def _spans(window: Window | None) -> tuple[int | None, int | None]:
    """The size of the windows, and how far apart they start; panes, if that differs from window to window."""
    if window is None:
        return None, None
    if window.calendar or window.cumulative:
        return window.pane_ms, window.pane_ms
    return window.size_ms, window.slide_ms


def lane_of(version: Version | None, lanes: Lanes) -> tuple[str | None, str | None]:
    """The lane of a version, and why it is Spark."""
    if version is None or version.id not in lanes:
        return None, None
    reason = lanes[version.id]
    return ("fused" if reason is None else "spark"), reason


def describe_build(version: Version, parts: Sequence[BuildProgress]) -> BuildStatus:
    """How far the build of a version is, in all of its streams."""
    return BuildStatus(
        version=version.number,
        state=version.state,
        applied_to=version.total("applied_to"),
        commits_done=version.total("built_to"),
        commits=version.total("horizon"),
        events_done=add_up(part.events_done for part in parts),
        events=add_up(part.events for part in parts),
        eta_s=add_up(part.eta_s for part in parts),
        stalled=version.stalled,
        error=next((part.error for part in parts if part.error), None),
    )


def add_up(values: Iterable[Number | None]) -> Number | None:
    """None where one is not known."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def warnings(versions: Iterable[Version]) -> tuple[str, ...]:
    """What somebody has to look at although events flow."""
    return tuple(f"view '{v.view.name}': {v.alarm}" for v in versions if v.serving and v.alarm)


def describe_audit(audit: Audit) -> AuditStatus:
    """An audit as `headrace audit` and HTTP show it."""
    return AuditStatus(
        version=audit.number,
        at=iso_us(audit.at_us),
        from_commit=audit.from_commit,
        to_commit=audit.to_commit,
        events=audit.events,
        rows=audit.rows,
        took_ms=audit.took_ms,
        agreed=audit.agreed,
        drift=tuple(DriftStatus(each.column, each.rows, each.example) for each in audit.drift),
    )


def memory_mb() -> int:
    """Resident memory of this process and all that it started; pages that they share count once each."""
    tree, counted = [os.getpid()], 0
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended meanwhile
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    total_kb = 0
    while counted < len(tree):
        pid = tree[counted]
        counted += 1
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
