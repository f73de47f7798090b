"""The plan: what must change so that what runs becomes what is wanted, as data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from headrace.define.catalog import Catalog
from headrace.define.durations import format_duration
from headrace.define.fingerprint import fingerprint
from headrace.define.loosening import loosens
from headrace.define.model import Column, Field, Stream, View, Window
from headrace.errors import ConflictError, DefinitionError

Kind = Literal["create", "change", "drop", "refuse"]
What = Literal["stream", "view"]


@dataclass(frozen=True)
class Change:
    """One step of a plan. `details` say to people what differs; `reason` what follows from it, or why it is refused."""

    kind: Kind
    what: What
    name: str
    reason: str
    details: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The change as `--json` shows it."""
        return {
            "kind": self.kind,
            "what": self.what,
            "name": self.name,
            "reason": self.reason,
            "details": list(self.details),
        }


@dataclass(frozen=True)
class Plan:
    """Steps in an order in which they can be taken: streams before the views that read them, drops the other way."""

    changes: tuple[Change, ...] = ()
    fingerprint: str = ""  # of what runs and what is wanted: a yes to one plan is not a yes to another

    @property
    def empty(self) -> bool:
        """Whether what runs is what is wanted."""
        return not self.changes

    @property
    def only_creates(self) -> bool:
        """Whether nothing that runs is touched."""
        return all(change.kind == "create" for change in self.changes)

    @property
    def refused(self) -> tuple[Change, ...]:
        """The steps that cannot be taken."""
        return tuple(change for change in self.changes if change.kind == "refuse")

    def as_dict(self) -> dict[str, Any]:
        """The plan as `--json` shows it."""
        return {
            "fingerprint": self.fingerprint,
            "empty": self.empty,
            "only_creates": self.only_creates,
            "changes": [change.as_dict() for change in self.changes],
        }


def compare(running: Catalog, wanted: Catalog) -> Plan:
    """The plan that turns the running catalog into the wanted one."""
    changes = (*_streams(running, wanted), *_views(running, wanted), *_drops(running, wanted))
    return Plan(changes, _fingerprint(running, wanted))


def checked_plan(running: Catalog, wanted: Catalog, expect: str | None) -> Plan:
    """The plan, if it can be done and is the one that was shown."""
    plan = compare(running, wanted)
    if plan.refused:
        first = plan.refused[0]
        raise DefinitionError(
            f"{first.what} '{first.name}' cannot be changed so: {first.reason}", where=wanted.locations.get(first.name)
        )
    if expect is not None and expect != plan.fingerprint:
        raise ConflictError("the definitions have changed since the plan was shown", fix="look at the plan again")
    return plan


def _fingerprint(*catalogs: Catalog) -> str:
    definitions = [
        sorted([fingerprint(s) for s in c.streams.values()] + [fingerprint(v) for v in c.views.values()])
        for c in catalogs
    ]
    return hashlib.sha256(repr(definitions).encode()).hexdigest()[:16]


def _streams(running: Catalog, wanted: Catalog) -> Iterator[Change]:
    for name, stream in wanted.streams.items():
        before = running.streams.get(name)
        if before is None:
            yield Change("create", "stream", name, "a new log begins", tuple(describe_field(f) for f in stream.fields))
        elif before != stream:
            yield _changed_stream(before, stream)


def _changed_stream(before: Stream, after: Stream) -> Change:
    details = list(_field_changes(before, after))
    if before.event_time != after.event_time:
        details.append(f"event time: {before.time_column} → {after.time_column}")
    if before.format != after.format:
        details.append(f"format: {before.format.upper()} → {after.format.upper()}")
    refused = bool(details)
    loosened = [
        f"field loosened: {describe_field(field)} → {describe_field(new)}" for field, new in _loosened(before, after)
    ]
    details += loosened
    if before.patience_ms != after.patience_ms:
        details.append(f"patience: {format_duration(before.patience_ms)} → {format_duration(after.patience_ms)}")
    if not refused:
        reason = "what was read stays as it is" if loosened else "views use it from their next version on"
        return Change("change", "stream", after.name, f"free: {reason}", tuple(details))
    return Change(
        "refuse",
        "stream",
        after.name,
        "the log holds events with the old fields; declare the new form as a stream of another name and send to that, "
        "or put the old form back",
        tuple(details),
    )


def _loosened(before: Stream, after: Stream) -> Iterator[tuple[Field, Field]]:
    new = {field.name: field for field in after.fields}
    for field in before.fields:
        if new.get(field.name, field) != field and loosens(before, after, field.name):
            yield field, new[field.name]


def _field_changes(before: Stream, after: Stream) -> Iterator[str]:
    """What cannot be done to a log that exists."""
    old = {field.name: field for field in before.fields}
    new = {field.name: field for field in after.fields}
    for name, field in new.items():
        if name not in old:
            yield f"field added: {describe_field(field)}"
        elif old[name] != field and not loosens(before, after, name):
            yield f"field changed: {describe_field(old[name])} → {describe_field(field)}"
    for name, field in old.items():
        if name not in new:
            yield f"field removed: {describe_field(field)}"
    if set(old) == set(new) and list(old) != list(new):
        yield "the order of the fields"


def _views(running: Catalog, wanted: Catalog) -> Iterator[Change]:
    for name, view in wanted.views.items():
        before = running.views.get(name)
        if before is None:
            yield Change("create", "view", name, "computed from the whole log", tuple(describe_view(view)))
        elif before != view:
            yield _changed_view(before, view)


def _changed_view(before: View, after: View) -> Change:
    details = tuple(_view_changes(before, after))
    reason = "a new version is computed from the whole log while the old one serves"
    return Change("change", "view", after.name, reason, details)


def _view_changes(before: View, after: View) -> Iterator[str]:
    if before.stream != after.stream:
        yield f"stream: {before.stream} → {after.stream}"
    if before.where != after.where:
        yield f"where: {before.where or 'all events'} → {after.where or 'all events'}"
    types = dict(after.reads)
    for name, of in before.reads:
        if types.get(name, of) != of:
            yield f"type of {name}: {of} → {types[name]}"
    if _keys(before) != _keys(after):
        yield f"keys: {_keys(before)} → {_keys(after)}"
    if before.window != after.window:
        yield f"window: {describe_window(before.window)} → {describe_window(after.window)}"
    old = {column.name: column for column in before.columns}
    new = {column.name: column for column in after.columns}
    for name, column in new.items():
        if name not in old:
            yield f"column added: {describe_column(column)}"
        elif describe_column(old[name]) != describe_column(column):
            yield f"column changed: {describe_column(old[name])} → {describe_column(column)}"
    for name, column in old.items():
        if name not in new:
            yield f"column removed: {describe_column(column)}"
    if set(old) == set(new) and list(old) != list(new):
        yield "the order of the columns"
    if before.schedule_ms != after.schedule_ms:
        yield f"schedule: {_schedule(before)} → {_schedule(after)}"


def _drops(running: Catalog, wanted: Catalog) -> Iterator[Change]:
    for name in running.views:
        if name not in wanted.views:
            yield Change("drop", "view", name, "its numbers are deleted; the log keeps every event")
    for name in running.streams:
        if name not in wanted.streams:
            yield Change("drop", "stream", name, "it takes no more events; its log stays on disk")


def describe_field(field: Field) -> str:
    """A field as CREATE STREAM writes it."""
    computed = f" AS {field.computed}" if field.computed else ""
    return f"{field.name} {field.type}{'' if field.nullable else ' NOT NULL'}{computed}"


def describe_column(column: Column) -> str:
    """A column as SELECT writes it."""
    aggregate = column.aggregate
    where = f" FILTER (WHERE {aggregate.where})" if aggregate.where else ""
    return f"{aggregate.name}({aggregate.expression or '*'}){where} AS {column.name}"


def describe_window(window: Window | None) -> str:
    """A window in words."""
    if window is None:
        return "all time"
    size = format_duration(window.size_ms)
    return size if window.size_ms == window.slide_ms else f"{size} every {format_duration(window.slide_ms)}"


def describe_view(view: View) -> Iterator[str]:
    """The parts of a view, a line each."""
    yield f"stream: {view.stream}"
    if view.where:
        yield f"where: {view.where}"
    yield f"keys: {_keys(view)}"
    yield f"window: {describe_window(view.window)}"
    for column in view.columns:
        yield f"column: {describe_column(column)}"
    if view.schedule_ms:
        yield f"schedule: {_schedule(view)}"


def _keys(view: View) -> str:
    named = (k.name if k.name == k.expression.sql else f"{k.expression} AS {k.name}" for k in view.keys)
    return ", ".join(named) or "none"


def _schedule(view: View) -> str:
    return f"every {format_duration(view.schedule_ms)}" if view.schedule_ms else "none"
