"""`headrace status`, `streams` and `views`: what there is and how it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.cli.options import JsonOption, WorkspaceOption, open_connection
from headrace.cli.output import console, count, make_table, print_json, size, span
from headrace.define.durations import format_duration

if TYPE_CHECKING:
    from rich.table import Table

NO_STREAMS = "no streams run yet: write CREATE STREAM into definitions/, then `headrace apply`"
NO_VIEWS = "no views run yet: write CREATE MATERIALIZED VIEW into definitions/, then `headrace apply`"


def status(workspace: WorkspaceOption = ".", as_json: JsonOption = False) -> None:
    """Show the whole workspace at a glance: server, streams, views."""
    with open_connection(workspace) as connection:
        found = connection.status()
    if as_json:
        print_json(found)
        return
    out = console()
    where = f" at {found['url']}" if found["url"] else ""
    memory = f", {found['memory_mb']:,} MB of memory" if found["memory_mb"] else ""
    out.print(f"workspace {found['workspace']}: {found['state']}{where}{memory}", markup=False)
    for table, rows, hint in (
        (_streams_table, found["streams"], NO_STREAMS),
        (_views_table, found["views"], NO_VIEWS),
    ):
        out.print()
        out.print(table(rows) if rows else hint, markup=False)


def streams(workspace: WorkspaceOption = ".", as_json: JsonOption = False) -> None:
    """List the streams: fields, events, dead letters, backlog."""
    with open_connection(workspace) as connection:
        found = connection.streams()
    if as_json:
        print_json(found)
        return
    out = console()
    if not found:
        out.print(NO_STREAMS)
        return
    out.print(_streams_table(found))
    rows = [
        [s["name"], f["name"], f["type"] + ("" if f["nullable"] else " NOT NULL"), _role(s, f)]
        for s in found
        for f in s["fields"]
    ]
    out.print()
    out.print(make_table(["stream", "field", "type", ""], rows))


def views(workspace: WorkspaceOption = ".", as_json: JsonOption = False) -> None:
    """List the views: keys, columns, version, freshness."""
    with open_connection(workspace) as connection:
        found = connection.views()
    if as_json:
        print_json(found)
        return
    out = console()
    if not found:
        out.print(NO_VIEWS)
        return
    out.print(_views_table(found))
    rows = [[v["name"], c["name"], c["aggregate"], c["type"]] for v in found for c in v["columns"]]
    out.print()
    out.print(make_table(["view", "column", "aggregate", "type"], rows))


def _streams_table(found: list[dict[str, Any]]) -> Table:
    titles = ["stream", "events", "events/s", "dead letters", "commits", "backlog", "newest event", "trouble"]
    rows = [
        [
            s["name"],
            count(s["events"]),
            count(s.get("events_per_second")),
            count(s["dead_letters"]),
            count(s["commits"]),
            size(s["backlog_bytes"]),
            _time(s["newest_event"]),
            s["error"] or "–",
        ]
        for s in found
    ]
    return make_table(titles, rows, titles[1:6])


def _views_table(found: list[dict[str, Any]]) -> Table:
    titles = ["view", "stream", "keys", "window", "version", "commits", "freshness", "trouble"]
    rows = [
        [
            v["name"],
            v["stream"],
            ", ".join(v["keys"]) or "–",
            _window(v),
            count(v["version"]),
            f"{count(v['applied_to'])} of {count(v['commits'])}",
            _freshness(v),
            v["stalled"] or _building(v) or "–",
        ]
        for v in found
    ]
    return make_table(titles, rows, ["version", "commits"])


def _time(text: str | None) -> str:
    """To the second: what lies below it is of no use here."""
    return "–" if text is None else text.replace("T", " ")[:19]


def _role(stream: dict[str, Any], field: dict[str, Any]) -> str:
    if field["name"] == stream["event_time"]:
        return f"event time, patience {format_duration(stream['patience_ms'])}"
    return f"computed: {field['computed']}" if field["computed"] else ""


def _window(view: dict[str, Any]) -> str:
    if view["window_ms"] is None:
        return "all time"
    text = format_duration(view["window_ms"])
    return text if view["window_ms"] == view["every_ms"] else f"{text} every {format_duration(view['every_ms'])}"


def _freshness(view: dict[str, Any]) -> str:
    if view["freshness_ms"] is None:
        return view["freshness_reason"] or "unknown"
    return "up to date" if view["freshness_ms"] == 0 else f"{span(view['freshness_ms'])} behind"


def _building(view: dict[str, Any]) -> str | None:
    building = view["building"]
    if not building:
        return None
    return f"version {building['version']} is being built: {building['applied_to']} of {building['commits']} commits"
