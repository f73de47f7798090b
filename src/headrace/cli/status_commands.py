"""`headrace status`, `streams` and `views`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from headrace.cli.common_options import JsonOption, WideOption, WorkspaceOption, open_connection
from headrace.cli.fitted_table import FittedTable
from headrace.cli.list_commands import sinks_table, subscriptions_table
from headrace.cli.output import console, count, plural, print_json, record_table, size, span
from headrace.format import freshness, waiting
from headrace.language.durations import format_duration
from headrace.lazy import later
from headrace.name_encoding import shell
from headrace.server.layer_text import alarm, building, checked, shares

if TYPE_CHECKING:
    from headrace.cli import live_status
    from headrace.define import kafka_record
    from headrace.deliver.delivery_status import AlertStatus
    from headrace.server.status import FieldStatus, LogicalStatus, StreamStatus, ViewStatus, WorkspaceStatus
else:  # loaded by their first use
    live_status = later("headrace.cli.live_status")
    kafka_record = later("headrace.define.kafka_record")

EVERY_S = 1.0
NO_STREAMS = "no streams yet: `headrace up` starts those in definitions/"
NO_VIEWS = "no views yet: `headrace up` starts those in definitions/"


def status(
    workspace: WorkspaceOption = ".",
    watch: Annotated[bool, typer.Option("--watch", help="Update continuously until q or Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", help="With --watch: interval.", min=0.1, max=3600)
    ] = EVERY_S,
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the state of the server, streams, views and sinks."""
    if watch:
        _watch(workspace, every, as_json=as_json)
        return
    with open_connection(workspace) as connection:
        workspace_status = connection.verbs.status()
    if as_json:
        print_json(workspace_status)
        return
    console(wide=wide).print(render_status(workspace_status))


def _watch(workspace: str, every_s: float, *, as_json: bool) -> None:
    if as_json:
        live_status.watch_json(workspace, every_s)
    else:
        live_status.watch_status(workspace, every_s, console(), render_status)


def render_status(status: WorkspaceStatus) -> RenderableType:
    """The status of the workspace for a screen."""
    where = f" at {status.url}" if status.url else ""
    memory = f", {status.memory_mb:,} MB of memory" if status.memory_mb else ""
    heartbeat = f", heartbeat {span(status.heartbeat_ms)} ago" if status.heartbeat_ms is not None else ""
    head = Text(f"workspace {status.workspace}: {status.state}{where}{memory}{heartbeat}")
    for warning in status.warnings:
        head.append(f"\nwarning: {warning}", style="red")
    tables = [view for view in status.views if view.table]
    own_streams = [stream for stream in status.streams if not stream.table]
    own_views = [view for view in status.views if not view.table]
    streams = _streams_table(own_streams) if own_streams else Text(NO_STREAMS)
    views = _views_table(own_views) if own_views else Text(NO_VIEWS)
    sinks: list[RenderableType] = [Text(), sinks_table(status.sinks)] if status.sinks else []
    logical: list[RenderableType] = [Text(), _logical_table(status.logical)] if status.logical else []
    shown_tables: list[RenderableType] = [Text(), _tables_table(tables)] if tables else []
    parts: list[RenderableType] = [head, Text(), streams, *_advice(own_streams), *shown_tables, Text(), views]
    parts += [*logical, *sinks]
    if status.subscriptions:
        parts += [Text(), subscriptions_table(status.subscriptions)]
    return Group(*parts, *_alerts(status.alerts))


def _alerts(alerts: Sequence[AlertStatus]) -> list[Text]:
    """The alerts that fire."""
    firing = [alert for alert in alerts if alert.firing]
    lines = [f"alert {each.name} fires for {plural(each.firing, 'key')}: {each.condition}" for each in firing]
    return [Text(), *(Text(line, style="red") for line in lines)] if lines else []


def _advice(streams: Sequence[StreamStatus]) -> list[Text]:
    """Whether the patience of each stream is what its events need."""
    return [Text(f"{s.name}: {s.lateness.advice}", style="dim") for s in streams if s.lateness]


def streams(workspace: WorkspaceOption = ".", wide: WideOption = False, as_json: JsonOption = False) -> None:
    """List the streams: fields, events, dead letters, lateness."""
    with open_connection(workspace) as connection:
        statuses = [stream for stream in connection.verbs.streams() if not stream.table]
    if as_json:
        print_json(statuses)
        return
    out = console(wide=wide)
    if not statuses:
        out.print(NO_STREAMS)
        return
    out.print(_streams_table(statuses))
    rows = [
        [s.name, f.name, f.type + ("" if f.nullable else " NOT NULL"), _role(s, f)] for s in statuses for f in s.fields
    ]
    out.print()
    out.print(FittedTable(["stream", "field", "type", ""], rows, (), [""]))
    _print_lags(out, statuses)
    print_lateness(out, statuses)


def _print_lags(out: Console, streams: Sequence[StreamStatus]) -> None:
    """Print how many events of each partition in Kafka are not in the lake."""
    rows = [[s.name, place, count(lag)] for s in streams if s.lag for place, lag in s.lag.partitions.items()]
    if rows:
        out.print()
        out.print(FittedTable(["stream", "partition", "lag"], rows, ["lag"]))


def print_lateness(out: Console, streams: Sequence[StreamStatus]) -> None:
    """Print how late events are, and what patience they need."""
    measured = [(s.name, s.lateness) for s in streams if s.lateness]
    if not measured:
        return
    titles = [name.replace("_", ".") for name in measured[0][1].lateness_ms]
    rows = [
        [name, what, *(span(ms) for ms in quantiles.values())]
        for name, lateness in measured
        for what, quantiles in (("lateness", lateness.lateness_ms), ("delay", lateness.delay_ms))
    ]
    out.print()
    out.print(FittedTable(["stream", "", *titles], rows, titles))
    for name, lateness in measured:
        counts = f"{count(lateness.on_time)} on time + {count(lateness.late)} late = {count(lateness.events)} events"
        out.print(Text(f"{name}: {lateness.advice}; {counts} since {lateness.since}"))


def views(workspace: WorkspaceOption = ".", wide: WideOption = False, as_json: JsonOption = False) -> None:
    """List the views: keys, columns, version, freshness, lane."""
    with open_connection(workspace) as connection:
        statuses = [view for view in connection.verbs.views() if not view.table]
        logical = connection.verbs.logical_views()
    if as_json:
        print_json([*statuses, *logical])
        return
    out = console(wide=wide)
    if not statuses:
        out.print(NO_VIEWS)
        return
    out.print(_views_table(statuses))
    rows = [[v.name, c.name, c.aggregate, c.type] for v in statuses for c in v.columns]
    out.print()
    out.print(FittedTable(["view", "column", "aggregate", "type"], rows, (), ["type"]))
    if logical:
        out.print()
        out.print(_logical_table(logical))
        rows = [[v.name, c.name, c.type] for v in logical for c in v.columns]
        out.print()
        out.print(FittedTable(["logical view", "column", "type"], rows))
    print_lanes({f"view {v.name}": v.lane_reason for v in statuses})


def _logical_table(views: Sequence[LogicalStatus]) -> FittedTable:
    cells = [
        {
            "logical view": v.name,
            "reads": ", ".join(v.reads),
            "freshness": freshness(v.freshness_ms, v.freshness_reason),
            "problem": v.stalled or "–",
        }
        for v in views
    ]
    return record_table(cells, tuple(cells[0]))


def print_lanes(reasons: Mapping[str, str | None]) -> None:
    """Print why Spark jobs update some views or versions, which are the keys; None: the fused lane does."""
    out = console()
    sentences = [f"Spark updates {name}: {reason}." for name, reason in reasons.items() if reason is not None]
    if sentences:
        out.print()
    for sentence in sentences:
        out.print(Text(sentence))


def _streams_table(streams: Sequence[StreamStatus]) -> FittedTable:
    any_derived = any(s.derived_from for s in streams)
    cells = [
        {
            "stream": s.name,
            "events": count(s.events),
            "events/s": count(s.events_per_second),
            "dead letters": count(s.dead_letters),
            **({"duplicates": count(s.duplicates)} if any(each.unique for each in streams) else {}),
            "commits": count(s.commits),
            "commit time": span(s.commit_ms),
            "maintain time": span(s.maintain_ms),
            "files": count(s.lake_files),
            "backlog": waiting(s.lag.events if s.lag else None, s.backlog_bytes),
            "newest event": _time(s.newest_event),
            **({"derived from": ", ".join(s.derived_from) or "–"} if any_derived else {}),
            "problem": s.error or "–",
        }
        for s in streams
    ]
    left = ("stream", "newest event", "derived from", "problem")
    optional = ("files", "maintain time", "commit time", "commits", "backlog", "derived from", "newest event")
    return record_table(cells, left, optional)


def _tables_table(tables: Sequence[ViewStatus]) -> FittedTable:
    cells = [
        {
            "table": v.name,
            "primary key": ", ".join(v.keys),
            "rows": count(v.rows),
            "version": count(v.applied_to),
            "freshness": freshness(v.freshness_ms, v.freshness_reason),
            "problem": v.stalled or _alarm(v) or building(v) or "–",
        }
        for v in tables
    ]
    return record_table(cells, ("table", "primary key", "freshness", "problem"), ("commits", "primary key"))


def _views_table(views: Sequence[ViewStatus]) -> FittedTable:
    now = datetime.now(UTC)
    cells = [
        {
            "view": v.name,
            "stream": v.stream,
            "keys": ", ".join(v.keys) or "–",
            "window": _window(v),
            "version": count(v.version),
            "rows": count(v.rows),
            "commits": f"{count(v.applied_to)} of {count(v.commits)}",
            "behind": size(v.lag_bytes),
            "corrections": count(v.corrections),
            "freshness": freshness(v.freshness_ms, v.freshness_reason),
            "lane": v.lane or "–",
            "batch": _batch_share(v),
            "checked": checked(v, now).removeprefix("checked "),
            "problem": v.stalled or _alarm(v) or building(v) or "–",
        }
        for v in views
    ]
    left = ("view", "stream", "keys", "window", "freshness", "lane", "checked", "problem")
    optional = ("batch", "lane", "corrections", "behind", "checked", "version", "commits", "stream", "rows", "window")
    return record_table(cells, left, (*optional, "keys"))


def _time(text: str | None) -> str:
    """A time without the fraction of its second."""
    return "–" if text is None else text.replace("T", " ")[:19]


def _role(stream: StreamStatus, field: FieldStatus) -> str:
    role = _role_in_events(stream, field)
    if stream.unique and field.name in stream.unique.columns:
        together = "unique" if len(stream.unique.columns) == 1 else f"unique by {', '.join(stream.unique.columns)}"
        role = ", ".join(filter(None, (role, f"{together} within {format_duration(stream.unique.within_ms)}")))
    return role


def _role_in_events(stream: StreamStatus, field: FieldStatus) -> str:
    if field.name == stream.event_time:
        idle = "" if stream.idle_timeout_ms is None else f", idle time-out {format_duration(stream.idle_timeout_ms)}"
        return f"event time, patience {format_duration(stream.patience_ms)}{idle}"
    if field.record:
        return kafka_record.describe_record(field.record)
    return f"computed: {field.computed}" if field.computed else f"from: {field.path}" if field.path else ""


def _window(view: ViewStatus) -> str:
    return view.window_text or "all time"


def _batch_share(view: ViewStatus) -> str:
    """The share of a view's events that are in the batch layer."""
    layer_shares = shares(view)
    return "–" if layer_shares is None else f"{layer_shares[0]:.0%}"


def _alarm(view: ViewStatus) -> str | None:
    message = alarm(view)
    return f"{message}: `headrace audit {shell(view.name)}`" if message else None
