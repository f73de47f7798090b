"""The plan: the differences between the applied and the wanted definitions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from headrace.define.definition_rules import loosens, why_narrower
from headrace.define.definitions import Catalog
from headrace.define.fingerprint import fingerprint
from headrace.define.kafka_record import describe_record
from headrace.define.model import JSON, Field, Stream, View
from headrace.define.relation import Relation
from headrace.define.relation_text import describe_relation, sources_of
from headrace.engine.duckdb_relations import refuse_duckdb
from headrace.errors import ConflictError, DefinitionError
from headrace.language.durations import format_duration
from headrace.language.literals import BARE_DECIMAL
from headrace.language.source_text import escape
from headrace.language.terms import quote
from headrace.language.user_functions import code_changes, edited_names, plain, plain_changes
from headrace.plan.cost import UNKNOWN, Costs, Way
from headrace.plan.edits import Edit, classify, describe_view
from headrace.plan.planned_change import Kind, Plan, PlannedChange
from headrace.plan.unversioned_changes import (
    describe_source,
    free_source_changes,
    logical_changes,
    logical_drops,
    merge_parts,
    outgoing_changes,
    outgoing_drops,
    refused_source_changes,
)

FREE = "free: no event is read again, the rows stay"
_MADE_OF_OTHERS = "events made of other streams"
_LOOSENED = "stored events do not change"
_ADDED = "older events are parsed again where a view uses the new field"
_NOT_NULL = "the log contains events that may lack the new field; add it as nullable: leave out NOT NULL"
_CONTINUES = "it continues at the offset that the log has reached"
_JUDGED = "it applies from the next commit on; earlier events stay as they were judged"
_OTHER_EVENTS = (
    "the log contains the events and offsets of the old source; declare a stream with another name for the new one, "
    "or restore the old source"
)
_DECIMAL_HINT = (
    f"{BARE_DECIMAL}, which NUMERIC and DECIMAL without precision are, has no digits after the point; "
    "write NUMERIC(38, 9) or DOUBLE to keep them"
)
_REFUSED = (
    "the log contains events with the old fields; declare the new fields as a stream with another name and send to "
    "that, or restore the old fields"
)


def compare(running: Catalog, target: Catalog, costs: Costs = UNKNOWN) -> Plan:
    """The plan that turns the running catalog into the wanted one."""
    changes = (
        *_streams(running, target),
        *_views(running, target, costs),
        *logical_changes(running, target),
        *outgoing_changes(running, target),
        *_drops(running, target),
    )
    merged = (_with_decimal_hint(target, change) for change in merge_parts(running, target, changes))
    return Plan(tuple(merged), _fingerprint(running, target))


def checked_plan(running: Catalog, target: Catalog, expect: str | None, costs: Costs = UNKNOWN) -> Plan:
    """The plan, if it can be done and is the one that was shown."""
    plan = compare(running, target, costs)
    if plan.refused:
        first = plan.refused[0]
        raise DefinitionError(
            f"{first.what} '{first.name}' cannot be changed this way: {first.reason}",
            where=target.locations.get(first.name),
        )
    if expect is not None and expect != plan.fingerprint:
        raise ConflictError("the definitions have changed since the plan was shown", fix="look at the plan again")
    return plan


def _fingerprint(*catalogs: Catalog) -> str:
    definitions = [sorted(map(fingerprint, catalog.definitions)) for catalog in catalogs]
    return hashlib.sha256(repr(definitions).encode()).hexdigest()[:16]


def _streams(running: Catalog, target: Catalog) -> Iterator[PlannedChange]:
    for name, stream in target.streams.items():
        before = running.streams.get(name)
        if before is None:
            reason = f"derived from {', '.join(sources_of(stream.relation))}" if stream.relation else "with a new log"
            details, hint = plain_changes(describe_stream(stream)), _time_hint(stream.relation)
            yield PlannedChange("create", "stream", name, reason, details, hint=hint)
        elif before != stream and (before.relation or stream.relation):
            yield _changed_relation(before, stream)
        elif before != stream:
            yield _changed_stream(before, stream)


def _changed_relation(before: Stream, after: Stream) -> PlannedChange:
    """The change of a derived stream: its readers contain how its events are made, and change too where it matters."""
    if before.relation is None or after.relation is None:
        kinds = ["events of its own" if each.relation is None else _MADE_OF_OTHERS for each in (before, after)]
        reason = "the log holds events of a stream with this name; give the new stream another name"
        if after.relation is None:
            reason = "a stream with events of its own needs another name; drop this one first, then create it"
        return PlannedChange("refuse", "stream", after.name, reason, (" → ".join(kinds),), "refused")
    full = [*describe_stream(before)], [*describe_stream(after)]
    old, new = ([*map(plain, lines)] for lines in full)
    details = [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]
    details += code_changes(edited_names(" ".join(full[0] + full[1])))
    return PlannedChange("change", "stream", after.name, "free: it has no log; its views follow it", tuple(details))


def _changed_stream(before: Stream, after: Stream) -> PlannedChange:
    details = list(_field_changes(before, after))
    not_null = [f"field added: {describe_field(field)}" for field in _added(before, after) if not field.nullable]
    details += not_null
    if before.event_time != after.event_time:
        details.append(f"event time: {before.time_column} → {after.time_column}")
    if before.format != after.format:
        details.append(f"format: {before.format.upper()} → {after.format.upper()}")
    details += refused_source_changes(before.source, after.source)
    refused = len(details)
    loosened = [
        f"field loosened: {describe_field(field)} → {describe_field(new)}" for field, new in _loosened(before, after)
    ]
    added = [f"field added: {describe_field(field)}" for field in _added(before, after) if field.nullable]
    details += loosened + added
    if before.patience_ms != after.patience_ms:
        details.append(f"patience: {format_duration(before.patience_ms)} → {format_duration(after.patience_ms)}")
    if before.idle_timeout_ms != after.idle_timeout_ms:
        details.append(f"idle time-out: {_idle_timeout(before)} → {_idle_timeout(after)}")
    if before.unique != after.unique:
        details.append(f"unique: {before.unique or 'none'} → {after.unique or 'none'}")
    source_changes = free_source_changes(before.source, after.source)
    details += source_changes
    if not refused:
        reasons = [_LOOSENED] * bool(loosened) + [_ADDED] * bool(added) + [_CONTINUES] * bool(source_changes)
        reasons += [_JUDGED] * (before.unique != after.unique)
        reasons = reasons or ["its views keep their rows"]
        return PlannedChange("change", "stream", after.name, f"free: {'; '.join(reasons)}", tuple(details))
    reason = _NOT_NULL if refused == len(not_null) else _REFUSED
    if refused_source_changes(before.source, after.source):
        reason = _OTHER_EVENTS
    return PlannedChange("refuse", "stream", after.name, reason, tuple(details), "refused")


def _idle_timeout(stream: Stream) -> str:
    return "none" if stream.idle_timeout_ms is None else format_duration(stream.idle_timeout_ms)


def _added(before: Stream, after: Stream) -> list[Field]:
    known = {field.name for field in before.fields}
    return [field for field in after.fields if field.name not in known]


def _loosened(before: Stream, after: Stream) -> Iterator[tuple[Field, Field]]:
    new = {field.name: field for field in after.fields}
    for field in before.fields:
        if new.get(field.name, field) != field and loosens(before, after, field.name):
            yield field, new[field.name]


def _field_changes(before: Stream, after: Stream) -> Iterator[str]:
    """Changes that a log that exists does not allow."""
    old = {field.name: field for field in before.fields}
    new = {field.name: field for field in after.fields}
    for name, field in new.items():
        if name in old and old[name] != field and not loosens(before, after, name):
            reason = why_narrower(old[name], field)
            change = f"field changed: {describe_field(old[name])} → {describe_field(field)}"
            yield f"{change} ({reason})" if reason else change
    for name, field in old.items():
        if name not in new:
            yield f"field removed: {describe_field(field)}"
    if [name for name in old if name in new] != [name for name in new if name in old]:
        yield "the order of the fields"


def _views(running: Catalog, target: Catalog, costs: Costs) -> Iterator[PlannedChange]:
    for name, view in target.views.items():
        change = _changed_view(running, target, running.views.get(name), view, costs)
        if change is not None:
            hints = filter(None, (_lane_hint(target, view), _time_hint(view.relation)))
            yield replace(change, hint="; ".join(hints) or None)


def _changed_view(
    running: Catalog, target: Catalog, before: View | None, view: View, costs: Costs
) -> PlannedChange | None:
    if before is None:
        return build_change("create", view, costs, plain_changes(describe_view(view)))
    edit = classify(before, view, (running.patience_ms(before), target.patience_ms(view)))
    return _edited(view, edit, _way(view, edit, target, costs), costs) if edit.differences else None


def _lane_hint(target: Catalog, view: View) -> str | None:
    """The hint that the fused lane cannot update a view."""
    if view.over is not None:
        return None
    reasons = (refuse_duckdb(target.streams[stream], view) for stream in view.streams)
    reason = next(filter(None, reasons), None)
    return f"Spark jobs will update it, not the faster fused lane; {plain(reason)}" if reason else None


def _time_hint(relation: Relation | None) -> str | None:
    """The hint that a join as of the time of an event meets no row that arrived after that time."""
    joins = (join for branch in relation.branches for join in branch.joins) if relation else ()
    table = next((join.table for join in joins if join.as_of is not None and join.log.event_time is None), None)
    return table and (
        f"table '{table}' has no event time, so FOR SYSTEM_TIME AS OF goes by the arrival of its rows: an event whose "
        "time is before that finds no row; give the table a time of its own, as in updated_at TIMESTAMP NOT NULL, "
        "WATERMARK FOR updated_at AS updated_at, or leave FOR SYSTEM_TIME out"
    )


def _with_decimal_hint(target: Catalog, change: PlannedChange) -> PlannedChange:
    """The step with the hint that a DECIMAL has no digits after the point, where NUMERIC may mean one that has."""
    if change.kind not in ("create", "change") or change.what not in ("stream", "table", "view"):
        return change
    stream, view = target.streams.get(change.name), target.views.get(change.name)
    lines = [*(describe_stream(stream) if stream else ()), *(describe_view(view) if view else ())]
    if not any(str(BARE_DECIMAL) in line for line in lines):
        return change
    return replace(change, hint="; ".join(filter(None, (change.hint, _DECIMAL_HINT))))


def _way(view: View, edit: Edit, target: Catalog, costs: Costs) -> Way:
    """The way by the versions that there are; else by what the edit itself says."""
    known = costs.way_of(view, target.patience_ms(view)) if costs.way_of else None
    return known or Way("adopt" if edit.free else "build")


def _edited(view: View, edit: Edit, way: Way, costs: Costs) -> PlannedChange:
    if way.kind == "build":
        return build_change("change", view, costs, edit.details)
    return PlannedChange("change", "view", view.name, free_reason(way), edit.texts)


def free_reason(way: Way) -> str:
    """Describe what is done instead of a build."""
    if way.kind == "stop":
        return f"free: the serving version has this definition; the build of version {way.number} is cancelled"
    if way.kind == "revive":
        return f"free: version {way.number} has this definition and still has its rows; it catches up and then serves"
    return FREE


def build_change(kind: Kind, view: View, costs: Costs, details: tuple[str, ...]) -> PlannedChange:
    """A step that a build takes, with what that reads."""
    if view.over is not None:
        reason = f"it is made of the rows of table '{view.over.table}'"
        return PlannedChange(kind, "view", view.name, reason, details)
    cost = costs.of(view.streams)
    until = "the old version serves until then" if kind == "change" else "it answers from then on"
    if cost is None:
        reason = f"a build reads the whole log; {until}"
    elif not cost.events:
        reason = "no events yet: it serves at once"
    else:
        reason = f"a build reads {cost}; {until}"
    return PlannedChange(kind, "view", view.name, reason, details, "build", cost)


def _drops(running: Catalog, target: Catalog) -> Iterator[PlannedChange]:
    yield from outgoing_drops(running, target)
    yield from logical_drops(running, target)
    for name in running.views:
        if name not in target.views:
            yield PlannedChange("drop", "view", name, "its rows are deleted; the log keeps every event")
    for name in running.streams:
        if name not in target.streams:
            derived = running.streams[name].relation is not None
            reason = "it has no log" if derived else "it accepts no more events; its log stays on disk"
            yield PlannedChange("drop", "stream", name, reason)


def describe_stream(stream: Stream) -> Iterator[str]:
    """The parts of a stream, a line each."""
    yield from (describe_field(field) for field in stream.fields)
    for base, steps in describe_relation(stream.relation).items() if stream.relation else ():
        yield f"rows of {base}: {steps}"
    if stream.event_time:
        yield f"event time: {stream.event_time}"
        yield f"patience: {format_duration(stream.patience_ms)}"
    else:
        yield f"event time: {stream.time_column}, the time of arrival"
    if stream.idle_timeout_ms is not None:
        yield f"idle time-out: {_idle_timeout(stream)}"
    if stream.unique is not None:
        yield f"unique: {stream.unique}"
    if stream.format != JSON:
        yield f"format: {stream.format.upper()}"
    if stream.source:
        yield from describe_source(stream.source)


def describe_field(field: Field) -> str:
    """A field as CREATE STREAM writes it."""
    computed = f" AS {field.computed}" if field.computed else ""
    source = (
        f" FROM {escape(field.path)}" if field.path else f" {describe_record(field.record)}" if field.record else ""
    )
    return f"{quote(field.name)} {field.type}{source}{'' if field.nullable else ' NOT NULL'}{computed}"
