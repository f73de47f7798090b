"""What a plan says of sinks and alerts: what they send, and whether a changed sink goes on or starts over."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.define.connectors import CONNECTORS
from headrace.define.definitions import Catalog
from headrace.language.durations import format_duration
from headrace.define.model import Alert, Sink
from headrace.plan.change import Change
from headrace.secrets import shown, shown_change

_GOES_ON = "free: it goes on where it is"
_STARTS_OVER = "it starts over: {first} again"


def outgoing_changes(running: Catalog, target: Catalog) -> Iterator[Change]:
    """The sinks and alerts to create and to change."""
    for name, sink in target.sinks.items():
        before = running.sinks.get(name)
        if before is None:
            yield Change("create", "sink", name, f"it first sends {_first(sink, target)}", tuple(describe_sink(sink)))
        elif before != sink:
            starts_over = _STARTS_OVER.format(first=f"it sends {_first(sink, target)}")
            reason = _GOES_ON if goes_on(before, sink) else starts_over
            details = (*_differences(describe_sink(before), describe_sink(sink)), *_hidden_changes(before, sink))
            yield Change("change", "sink", name, reason, details)
    for name, alert in target.alerts.items():
        earlier = running.alerts.get(name)
        if earlier is None:
            yield Change("create", "alert", name, "it watches from now on", tuple(describe_alert(alert)))
        elif earlier != alert:
            details = (*_differences(describe_alert(earlier), describe_alert(alert)), *_hidden_changes(earlier, alert))
            yield Change("change", "alert", name, "free: it is evaluated anew", details)


def outgoing_drops(running: Catalog, target: Catalog) -> Iterator[Change]:
    """The sinks and alerts that are dropped."""
    for name in running.alerts:
        if name not in target.alerts:
            yield Change("drop", "alert", name, "its state is deleted")
    for name in running.sinks:
        if name not in target.sinks:
            yield Change("drop", "sink", name, "its progress is deleted; what it has sent stays where it is")


def goes_on(before: Sink, after: Sink) -> bool:
    """Whether a changed sink may go on from its place: the rows that it has sent are those that it would send."""
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
