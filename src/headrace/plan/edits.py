"""An edit of a view: what differs, and whether the stored rows can be reused for the new definition.

A row holds partials by what they compute, not by what an output is called, and panes compose any window of their size:
what only names, orders or leaves out what is there reads no event again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.define.durations import format_duration
from headrace.define.expression.terms import quote
from headrace.define.model import Column, View, Window
from headrace.define.own import plain_changes
from headrace.plan.cost import How


@dataclass(frozen=True)
class Difference:
    """One change of an edit: its description and its cost."""

    text: str
    how: How


@dataclass(frozen=True)
class Edit:
    """All that differs between two forms of a view."""

    differences: tuple[Difference, ...]

    @property
    def free(self) -> bool:
        """Whether the rows of the one are rows of the other: no event is read again."""
        return all(difference.how == "free" for difference in self.differences)

    @property
    def how(self) -> How:
        """The cost of the whole edit: a build if any change needs one."""
        return "free" if self.free else "build"

    @property
    def texts(self) -> tuple[str, ...]:
        """The differences in words."""
        return plain_changes(difference.text for difference in self.differences)

    @property
    def details(self) -> tuple[str, ...]:
        """The differences; in an edit that mixes them, each free one is marked."""
        mixed = not self.free and any(difference.how == "free" for difference in self.differences)
        marked = (f"{d.text} (free on its own)" if mixed and d.how == "free" else d.text for d in self.differences)
        return plain_changes(marked)


Patience = Mapping[str, int]  # in ms, by stream


def classify(before: View, after: View, patience_ms: tuple[Patience, Patience] = ({}, {})) -> Edit:
    """What differs; `patience_ms` is that of the streams, before and after."""
    return Edit((*_grouping(before, after), *_columns(before, after), *_promises(before, after, patience_ms)))


def _grouping(before: View, after: View) -> Iterator[Difference]:
    """What decides which events are in which row."""
    if before.streams != after.streams:
        yield Difference(f"stream: {', '.join(before.streams)} → {', '.join(after.streams)}", "build")
    if before.where != after.where:
        yield Difference(f"where: {before.where or 'all events'} → {after.where or 'all events'}", "build")
    types = dict(after.reads)
    for name, of in before.reads:
        if types.get(name, of) != of:
            yield Difference(f"type of {name}: {of} → {types[name]}", "build")
    if describe_keys(before) != describe_keys(after):
        yield Difference(f"keys: {describe_keys(before)} → {describe_keys(after)}", "build")
    elif before.keys != after.keys:
        types_before, types_after = (", ".join(str(k.expression.type) for k in v.keys) for v in (before, after))
        yield Difference(f"types of the keys: {types_before} → {types_after}", "build")
    if before.window != after.window:
        text = f"window: {describe_window(before.window)} → {describe_window(after.window)}"
        yield Difference(text, "free" if _pane_ms(before) == _pane_ms(after) else "build")


def _columns(before: View, after: View) -> Iterator[Difference]:
    old = {column.name: column for column in before.columns}
    new = {column.name: column for column in after.columns}
    renamed = _renamed(before, after)
    for name, column in new.items():
        if name in renamed:
            yield Difference(f"column renamed: {describe_column(renamed[name])} → {name}", "free")
        elif name not in old:
            yield _because_there(before, column, f"column added: {describe_column(column)}")
        elif old[name].aggregate != column.aggregate:
            yield _because_there(before, column, _change(old[name], column))
    kept = {column.name for column in renamed.values()}
    for name, column in old.items():
        if name not in new and name not in kept:
            yield Difference(f"column removed: {describe_column(column)}", "free")
    if set(old) == set(new) and list(old) != list(new):
        yield Difference("the order of the columns", "free")


def _renamed(before: View, after: View) -> dict[str, Column]:
    """The new names of columns whose old name is gone: for each, the column that it was."""
    names = {column.name for column in after.columns}
    removed = [column for column in before.columns if column.name not in names]
    known = {column.name for column in before.columns}
    renamed: dict[str, Column] = {}
    for column in after.columns:
        same = next((old for old in removed if old.aggregate == column.aggregate), None)
        if column.name not in known and same is not None:
            removed.remove(same)
            renamed[column.name] = same
    return renamed


def _change(before: Column, after: Column) -> str:
    old, new = describe_column(before), describe_column(after)
    if old != new:
        return f"column changed: {old} → {new}"
    # The same text has another meaning only by the type of what it reads.
    types = [", ".join(str(a.type) for a in column.aggregate.arguments) for column in (before, after)]
    return f"argument of {after.name}: {' → '.join(types)}"


def _because_there(before: View, column: Column, text: str) -> Difference:
    """A column with another meaning is free if some column has computed the very same."""
    same = next((old.name for old in before.columns if old.aggregate == column.aggregate), None)
    return Difference(text, "build") if same is None else Difference(f"{text}, which is there as {same}", "free")


def _promises(before: View, after: View, patience_ms: tuple[Patience, Patience]) -> Iterator[Difference]:
    """What decides when something is done with rows, not what is in them."""
    old, new = patience_ms
    for stream in sorted(old.keys() & new.keys()):
        if old[stream] != new[stream]:
            what = "patience" if len(after.streams) == 1 else f"patience of {stream}"
            yield Difference(f"{what}: {format_duration(old[stream])} → {format_duration(new[stream])}", "free")
    if before.schedule_ms != after.schedule_ms:
        yield Difference(f"schedule: {describe_schedule(before)} → {describe_schedule(after)}", "free")


def _pane_ms(view: View) -> int | None:
    return view.window.pane_ms if view.window else None


def describe_column(column: Column) -> str:
    """A column as SELECT writes it."""
    return f"{column.aggregate.sql} AS {quote(column.name)}"


def describe_window(window: Window | None) -> str:
    """A window in words."""
    if window is None:
        return "all time"
    bounds = {"window_start": window.start_name, "window_end": window.end_name}
    names = "".join(f", {bound} AS {name}" for bound, name in bounds.items() if name)
    every = "" if window.size_ms == window.slide_ms else f" every {format_duration(window.slide_ms)}"
    return f"{format_duration(window.size_ms)}{every}{names}"


def describe_view(view: View) -> Iterator[str]:
    """The parts of a view, a line each."""
    yield f"stream: {', '.join(view.streams)}"
    if view.where:
        yield f"where: {view.where}"
    yield f"keys: {describe_keys(view)}"
    yield f"window: {describe_window(view.window)}"
    for column in view.columns:
        yield f"column: {describe_column(column)}"
    if view.schedule_ms:
        yield f"schedule: {describe_schedule(view)}"


def describe_keys(view: View) -> str:
    """The keys as SELECT writes them."""
    names = ((quote(key.name), str(key.expression)) for key in view.keys)
    keys = (name if name == sql else f"{sql} AS {name}" for name, sql in names)
    return ", ".join(keys) or "none"


def describe_schedule(view: View) -> str:
    """How often it is refreshed."""
    return f"every {format_duration(view.schedule_ms)}" if view.schedule_ms else "none"
