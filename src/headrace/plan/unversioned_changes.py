"""Planned changes of what has no versions: sources of streams, tables, logical views, sinks and alerts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headrace.define.connectors import CONNECTORS
from headrace.define.definitions import Catalog
from headrace.define.kafka_source import DELIMITER, PATTERN, TOPIC, read_source
from headrace.define.model import Alert, LogicalView, Sink, Source, Table
from headrace.define.table_parts import DELETED
from headrace.language.durations import format_duration
from headrace.language.terms import quote
from headrace.plan.planned_change import Kind, PlannedChange, What
from headrace.secrets import shown, shown_change

_STARTS = "scan.startup."


def describe_source(source: Source) -> Iterator[str]:
    """Describe where events come from, a line each, without secrets."""
    yield f"source: {source.connector}"
    yield from (f"source option: {name} = {shown(name, value)}" for name, value in source.options)


def refused_source_changes(before: Source | None, after: Source | None) -> list[str]:
    """Changes that would make the offsets of the log those of other events."""
    if before is None or after is None:
        return [] if before == after else [f"source: {_name(before)} → {_name(after)}"]
    if before.connector != after.connector:
        return [f"source: {_name(before)} → {_name(after)}"]
    old, new = read_source(before), read_source(after)
    changes = []
    if not set(old.topics) <= set(new.topics) or (not old.topics and new.topics):
        changes.append(_change(TOPIC, before, after))
    if old.pattern != new.pattern:
        changes.append(_change(PATTERN, before, after))
    if before.get(DELIMITER) != after.get(DELIMITER):
        changes.append(_change(DELIMITER, before, after))
    return changes


def free_source_changes(before: Source | None, after: Source | None) -> list[str]:
    """Changes of how a source is reached or followed: servers, security, further topics."""
    if before is None or after is None or before.connector != after.connector:
        return []
    refused = refused_source_changes(before, after)
    names = sorted({*dict(before.options), *dict(after.options)})
    changes = [_change(name, before, after) for name in names if before.get(name) != after.get(name)]
    return [
        f"{change} (only where a new stream begins)" if change.startswith(f"source option: {_STARTS}") else change
        for change in changes
        if change not in refused
    ]


def _change(name: str, before: Source, after: Source) -> str:
    return f"source option: {shown_change(name, before.get(name), after.get(name))}"


def _name(source: Source | None) -> str:
    return source.connector if source else "HTTP and files"


TABLE: What = "table"


def merge_parts(running: Catalog, target: Catalog, changes: Sequence[PlannedChange]) -> Iterator[PlannedChange]:
    """The steps of streams and views, those of the two parts of a table as one."""
    names = {*running.tables, *target.tables}
    parts: dict[str, list[PlannedChange]] = {}
    for change in changes:
        if change.name in names and change.what in ("stream", "view"):
            parts.setdefault(change.name, []).append(change)
    for change in changes:
        own = parts.get(change.name, [])
        if change not in own:
            yield change
        elif change is own[-1]:
            yield _merged(running.tables.get(change.name), target.tables.get(change.name), own)


def _merged(before: Table | None, after: Table | None, parts: Sequence[PlannedChange]) -> PlannedChange:
    refused = next((part for part in parts if part.kind == "refuse"), None)
    if refused is not None:
        return replace(refused, what=TABLE)
    last = parts[-1]
    if after is None:
        return replace(last, what=TABLE, reason="its rows are deleted; its log of changes stays on disk")
    if before is None:
        kinds = {part.kind for part in parts}
        kind: Kind = "create" if kinds == {"create"} else "change"
        return replace(last, what=TABLE, kind=kind, details=tuple(describe_table(after)))
    details = dict.fromkeys(detail for part in parts for detail in part.details if DELETED not in detail)
    return replace(last, what=TABLE, details=tuple(details))


def describe_table(table: Table) -> Iterator[str]:
    """The parts of a table, a line each."""
    for field in table.fields:
        yield f"{quote(field.name)} {field.type}"
    yield f"primary key: {', '.join(map(quote, table.key))}"
    if table.event_time:
        yield f"latest by: {table.event_time}"
        yield f"patience: {format_duration(table.patience_ms)}"
    else:
        yield "latest by: arrival"
    if table.relation:
        yield f"made from: {', '.join(table.relation.streams)}"
    if table.source:
        yield from describe_source(table.source)


_CREATE = "free: it is evaluated when it is queried"
_CHANGE = "free: the next query uses the new definition"
_DROP = "nothing of it is stored"


def logical_changes(running: Catalog, target: Catalog) -> Iterator[PlannedChange]:
    """The logical views to create and to change."""
    for name, view in target.logical.items():
        before = running.logical.get(name)
        if before is None:
            yield PlannedChange("create", "logical view", name, _CREATE, tuple(describe_logical(view)))
        elif before != view:
            yield PlannedChange("change", "logical view", name, _CHANGE, tuple(_logical_differences(before, view)))


def logical_drops(running: Catalog, target: Catalog) -> Iterator[PlannedChange]:
    """The logical views that are dropped, each before those that it reads."""
    for name in reversed(list(running.logical)):
        if name not in target.logical:
            yield PlannedChange("drop", "logical view", name, _DROP)


def describe_logical(view: LogicalView) -> Iterator[str]:
    """The parts of a logical view, a line each."""
    yield f"reads: {', '.join(view.reads)}"
    yield from (f"column {name}: {of}" for name, of in view.columns)


def _logical_differences(before: LogicalView, after: LogicalView) -> Iterator[str]:
    old, new = dict(before.columns), dict(after.columns)
    for name, of in new.items():
        if name not in old:
            yield f"column added: {name}: {of}"
        elif old[name] != of:
            yield f"column {name}: {old[name]} → {of}"
    yield from (f"column removed: {name}" for name in old if name not in new)
    if before.reads != after.reads:
        yield f"reads: {', '.join(before.reads)} → {', '.join(after.reads)}"
    if before.sql != after.sql:
        yield "query changed"


_CONTINUES = "free: it continues where it is"
_STARTS_OVER = "it starts over: {first} again"


def outgoing_changes(running: Catalog, target: Catalog) -> Iterator[PlannedChange]:
    """The sinks and alerts to create and to change."""
    for name, sink in target.sinks.items():
        before = running.sinks.get(name)
        if before is None:
            yield PlannedChange(
                "create", "sink", name, f"it first sends {_first(sink, target)}", tuple(describe_sink(sink))
            )
        elif before != sink:
            starts_over = _STARTS_OVER.format(first=f"it sends {_first(sink, target)}")
            reason = _CONTINUES if goes_on(before, sink) else starts_over
            details = (*_differences(describe_sink(before), describe_sink(sink)), *_hidden_changes(before, sink))
            yield PlannedChange("change", "sink", name, reason, details)
    for name, alert in target.alerts.items():
        earlier = running.alerts.get(name)
        if earlier is None:
            yield PlannedChange("create", "alert", name, "it watches from now on", tuple(describe_alert(alert)))
        elif earlier != alert:
            details = (*_differences(describe_alert(earlier), describe_alert(alert)), *_hidden_changes(earlier, alert))
            yield PlannedChange("change", "alert", name, "free: it is evaluated again", details)


def outgoing_drops(running: Catalog, target: Catalog) -> Iterator[PlannedChange]:
    """The sinks and alerts that are dropped."""
    for name in running.alerts:
        if name not in target.alerts:
            yield PlannedChange("drop", "alert", name, "its state is deleted")
    for name in running.sinks:
        if name not in target.sinks:
            yield PlannedChange("drop", "sink", name, "its progress is deleted; what it has sent stays where it is")


def goes_on(before: Sink, after: Sink) -> bool:
    """Return whether a changed sink may continue from its place: it would have sent the same rows."""
    if (before.source, before.connector, before.where, before.mode, before.on_close, before.corrections) != (
        after.source, after.connector, after.where, after.mode, after.on_close, after.corrections,
    ):  # fmt: skip
        return False
    connector = CONNECTORS[after.connector]
    old, new = dict(before.options), dict(after.options)
    changed = (name for name in {*old, *new} if old.get(name) != new.get(name))
    return all((option := connector.option(name)) is None or option.keeps for name in changed)


def describe_sink(sink: Sink) -> Iterator[str]:
    """The parts of a sink, a line each; secrets are not shown."""
    yield f"from: {sink.source}"
    yield f"connector: {sink.connector}"
    yield from (f"{name}: {shown(name, value)}" for name, value in sink.options)
    if sink.where:
        yield f"where: {sink.where}"
    yield f"mode: {sink.mode}"
    if sink.on_close:
        yield f"emit: on window close{'' if sink.corrections else ', without corrections'}"


def describe_alert(alert: Alert) -> Iterator[str]:
    """The parts of an alert, a line each; secrets are not shown."""
    yield f"from: {alert.source}"
    if alert.outputs:
        yield "columns: " + ", ".join(
            each.name if each.expression.sql == each.name else f"{each.expression} AS {each.name}"
            for each in alert.outputs
        )
    if alert.where:
        yield f"where: {alert.where}"
    if alert.for_ms:
        yield f"for: {format_duration(alert.for_ms)}"
    if alert.absent_ms is not None:
        yield f"no events for: {format_duration(alert.absent_ms)}"
    if alert.on_close:
        yield "emit: on window close"
    yield from (f"{name}: {shown(name, value)}" for name, value in alert.options)


def _first(sink: Sink, catalog: Catalog) -> str:
    if sink.source not in catalog.streams:
        return f"the present rows of {sink.source}"
    if sink.get("scan.startup.mode") == "latest":
        return f"nothing: events of {sink.source} from now on"
    return f"all events of {sink.source}"


def _differences(before: Iterator[str], after: Iterator[str]) -> Iterator[str]:
    """The lines that differ, each as `name: old → new`."""
    old, new = (dict(line.split(": ", 1) for line in lines) for lines in (before, after))
    for name in [*new, *(name for name in old if name not in new)]:
        if old.get(name) != new.get(name):
            yield f"{name}: {old.get(name, 'none')} → {new.get(name, 'none')}"


def _hidden_changes(before: Sink | Alert, after: Sink | Alert) -> Iterator[str]:
    """The options whose lines are the same, since what has changed is not shown."""
    for name, old in before.options:
        new = after.get(name)
        if new is not None and old != new and shown(name, old) == shown(name, new):
            yield shown_change(name, old, new)
