"""The states of tables, logical views and the graph, composed from those of streams and views; and what is refused for
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from headrace.define.definitions import Catalog, GraphNode
from headrace.define.model import LogicalView, Table
from headrace.errors import QuestionError, RequestError, not_a_table
from headrace.format import plural
from headrace.server.status import (
    GraphStatus,
    LogicalStatus,
    NodeStatus,
    StreamStatus,
    TableStatus,
    TypedColumn,
    ViewStatus,
    WorkspaceStatus,
)


def describe_tables(
    tables: Mapping[str, Table], streams: Sequence[StreamStatus], views: Sequence[ViewStatus]
) -> list[TableStatus]:
    """All tables, from the statuses of their parts."""
    logs = {stream.name: stream for stream in streams}
    rows = {view.name: view for view in views}
    return [_describe_table(table, logs, rows[name]) for name, table in sorted(tables.items()) if name in rows]


def _describe_table(table: Table, logs: Mapping[str, StreamStatus], view: ViewStatus) -> TableStatus:
    log = logs.get(table.name)
    return TableStatus(
        name=table.name,
        key=table.key,
        columns=tuple(TypedColumn(field.name, str(field.type)) for field in table.fields),
        latest_by=table.event_time,
        derived_from=table.relation.streams if table.relation else (),
        rows=view.rows,
        version=view.applied_to,
        changes=None if view.rows is None else (view.batch_events or 0) + (view.speed_events or 0),
        dead_letters=log.dead_letters if log else None,
        newest_change=view.newest_event,
        freshness_ms=view.freshness_ms,
        freshness_reason=view.freshness_reason,
        problem=view.stalled or view.alarm or (log.error if log else None),
    )


def find_table(catalog: Catalog, name: str) -> Table:
    """A table by its name; raises NotFoundError."""
    table = catalog.tables.get(name)
    if table is None:
        raise not_a_table(name, catalog.tables, catalog.streams)
    return table


def find_writable(catalog: Catalog, name: str) -> Table:
    """A table whose rows can be sent to it."""
    table = find_table(catalog, name)
    if table.relation is not None:
        raise RequestError(
            f"table '{name}' is made from {_names(table.relation.streams)}: no rows can be sent to it",
            fix=f"send events to {_names(table.relation.streams)}",
        )
    return table


def _names(streams: Iterable[str]) -> str:
    return " and ".join(f"stream '{name}'" for name in streams)


def parts_of(view: LogicalView, logical: Mapping[str, LogicalView]) -> tuple[str, ...]:
    """The materialized views that a logical view is computed from, also through other logical views."""
    names: dict[str, None] = {}
    for name in view.reads:
        names |= dict.fromkeys(parts_of(logical[name], logical) if name in logical else (name,))
    return tuple(names)


def describe_logical(logical: Mapping[str, LogicalView], views: Iterable[ViewStatus]) -> list[LogicalStatus]:
    """The logical views, each as fresh as the stalest view that it is computed from."""
    by_name = {view.name: view for view in views}
    return [_describe_logical(view, [by_name[name] for name in parts_of(view, logical) if name in by_name])
            for _, view in sorted(logical.items())]  # fmt: skip


def _describe_logical(view: LogicalView, parts: list[ViewStatus]) -> LogicalStatus:
    unknown = next((part for part in parts if part.freshness_ms is None), None)
    stalest = unknown or max(parts, key=lambda part: part.freshness_ms or 0, default=None)
    stalled = next((part for part in parts if part.stalled), None)
    return LogicalStatus(
        name=view.name,
        sql=view.sql,
        columns=tuple(TypedColumn(name, str(of)) for name, of in view.columns),
        reads=view.reads,
        parts=tuple(part.name for part in parts),
        freshness_ms=stalest.freshness_ms if stalest else None,
        freshness_reason=_reason(stalest) if stalest else "no view that it reads is there",
        stalled=f"view '{stalled.name}': {stalled.stalled}" if stalled else None,
    )


def _reason(part: ViewStatus) -> str | None:
    return f"view '{part.name}': {part.freshness_reason}" if part.freshness_reason else None


def refuse_logical(logical: Mapping[str, LogicalView], view: str, what: str) -> None:
    """Refuse what only a materialized view has."""
    if view in logical:
        raise QuestionError(
            f"view '{view}' is logical: it is evaluated when it is queried and has no {what}",
            fix=f"name a view that it reads: {', '.join(parts_of(logical[view], logical))}",
        )


def describe_graph(
    nodes: Iterable[GraphNode], status: WorkspaceStatus, tables: Iterable[TableStatus] = ()
) -> GraphStatus:
    """The nodes, each after those that it reads, with what the status says of them."""
    rows = {table.name: table.rows for table in tables}
    described = [_describe_node(node, status) for node in nodes]
    return GraphStatus(tuple(replace(each, rows=rows[each.name]) if each.name in rows else each for each in described))


def _describe_node(node: GraphNode, status: WorkspaceStatus) -> NodeStatus:
    stream = next((each for each in status.streams if each.name == node.name), None)
    view = next((each for each in status.views if each.name == node.name), None)
    logical = next((each for each in status.logical if each.name == node.name), None)
    sink = next((each for each in status.sinks if each.name == node.name), None)
    alert = next((each for each in status.alerts if each.name == node.name), None)
    freshness_ms, reason, problem = None, None, None
    if stream is not None and node.kind in ("stream", "derived stream"):
        freshness_ms, problem = stream.freshness_ms, stream.error
    elif view is not None:
        freshness_ms, reason, problem = view.freshness_ms, view.freshness_reason, view.stalled or view.alarm
    elif logical is not None:
        freshness_ms, reason, problem = logical.freshness_ms, logical.freshness_reason, logical.stalled
    elif sink is not None:
        freshness_ms = None if sink.lag_s is None else round(sink.lag_s * 1000)
        reason, problem = (None if sink.state == "running" else sink.state), sink.reason
    elif alert is not None:
        problem = f"fires for {plural(alert.firing, 'key')}" if alert.firing else None
    return NodeStatus(
        name=node.name,
        kind=node.kind,
        reads=node.reads,
        detail=node.detail,
        events_per_second=stream.events_per_second if stream else None,
        rows=view.rows if view else sink.rows if sink else None,
        freshness_ms=freshness_ms,
        freshness_reason=reason,
        problem=problem,
    )
