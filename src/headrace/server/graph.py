"""The graph of a workspace with its numbers: rates of streams, rows and freshness of views, states of sinks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.define.definitions import GraphNode
from headrace.format import plural
from headrace.server.state import GraphStatus, NodeStatus, TableStatus, WorkspaceStatus


def describe_graph(nodes: Iterable[GraphNode], status: WorkspaceStatus, tables: Iterable[TableStatus] = ()) -> GraphStatus:
    """The nodes, each after those that it reads, with what the status says of them."""
    rows = {table.name: table.rows for table in tables}
    described = [_describe(node, status) for node in nodes]
    return GraphStatus(tuple(replace(each, rows=rows[each.name]) if each.name in rows else each for each in described))


def _describe(node: GraphNode, status: WorkspaceStatus) -> NodeStatus:
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
