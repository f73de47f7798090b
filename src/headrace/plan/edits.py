"""An edit of a view: what differs, whether the stored rows can be reused, and the cheapest way to the new rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.aggregate import Aggregate
from headrace.define.fingerprint import aggregate_id, fingerprint
from headrace.define.model import Output, Shape, View, Window
from headrace.define.outputs import outputs_of, written, written_order
from headrace.define.relation import Relation, TableLog
from headrace.define.relation_rewrites import prune
from headrace.define.relation_text import describe_relation
from headrace.define.table_parts import holds_rows_of_table
from headrace.language.durations import format_duration
from headrace.language.terms import Expression, quote
from headrace.language.user_functions import plain_changes
from headrace.plan.cost import How, Way
from headrace.store.version import Version


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
        """Return whether the rows of the one are rows of the other: no event is read again."""
        return all(difference.how == "free" for difference in self.differences)

    @property
    def how(self) -> How:
        """The cost of the edit: a build if any change needs one."""
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
    """Classify the differences; `patience_ms` is that of the streams, before and after."""
    tables = holds_rows_of_table(before) and holds_rows_of_table(after)
    shaped = tuple(_table(before, after)) if tables else (*_columns(before, after), *_shape(before, after))
    return Edit((*_grouping(before, after), *shaped, *_promises(before, after, patience_ms)))


def _grouping(before: View, after: View) -> Iterator[Difference]:
    """The parts of a view that decide which events are in which row."""
    if before.streams != after.streams:
        yield Difference(f"stream: {', '.join(before.streams)} → {', '.join(after.streams)}", "build")
    if before.over != after.over:
        yield Difference(f"table: {_describe_over(before)} → {_describe_over(after)}", "build")
    if before.where != after.where:
        yield Difference(f"where: {before.where or 'all events'} → {after.where or 'all events'}", "build")
    yield from _relations(before, after)
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
        yield Difference(text, "free" if _panes(before) == _panes(after) else "build")


def _logs(relation: Relation | None) -> dict[str, TableLog]:
    """The logs of the tables that rows are joined to: where their changes are, and how they are made."""
    return {join.table: join.log for branch in (relation.branches if relation else ()) for join in branch.joins}


def _relations(before: View, after: View) -> Iterator[Difference]:
    """Describe how the rows are made of events: in one line for each base stream whose rows differ."""
    of_before, of_after = (view.relation.without_patience() if view.relation else None for view in (before, after))
    if of_before == of_after:
        return
    if of_before and of_after and of_after == prune(of_before, dict(of_after.fields)):
        yield Difference("the columns of its rows: some are not needed any more", "free")
        return
    old, new = (describe_relation(view.relation) if view.relation else {} for view in (before, after))
    changed = [stream for stream in dict.fromkeys((*old, *new)) if old.get(stream) != new.get(stream)]
    for stream in changed:
        texts = " → ".join(lines.get(stream, "all events") for lines in (old, new))
        yield Difference(f"rows of {stream}: {texts}", "build")
    if not changed:
        tables = [table for table, log in _logs(of_after).items() if _logs(of_before).get(table, log) != log]
        names = ", ".join(f"'{table}'" for table in tables)
        yield Difference(f"how the rows of table {names} are made" if tables else "the columns of its rows", "build")


def _columns(before: View, after: View) -> Iterator[Difference]:
    old = {output.name: output for output in outputs_of(before)}
    new = {output.name: output for output in outputs_of(after)}
    renamed = _renamed(before, after)
    for name, output in new.items():
        if name in renamed:
            yield Difference(f"column renamed: {describe_output(before, renamed[name])} → {name}", "free")
        elif name not in old:
            yield _because_there(before, after, output, f"column added: {describe_output(after, output)}")
        elif old[name].expression != output.expression:
            yield _because_there(before, after, output, _change(before, old[name], after, output))
    kept = {output.name for output in renamed.values()}
    for name, output in old.items():
        if name not in new and name not in kept:
            yield Difference(f"column removed: {describe_output(before, output)}", "free")
    if set(old) == set(new) and list(old) != list(new):
        yield Difference("the order of the columns", "free")


def _table(before: View, after: View) -> Iterator[Difference]:
    """The columns of a table, in the words of its definition: each is a part of one aggregate, the latest row."""
    old, new = ({output.name: output.expression.type for output in outputs_of(view)} for view in (before, after))
    for name, of in new.items():
        if name not in old:
            yield Difference(f"field added: {quote(name)} {of}", "build")
        elif old[name] != of:
            yield Difference(f"field {quote(name)}: {old[name]} → {of}", "build")
    for name in old:
        if name not in new:
            yield Difference(f"field removed: {quote(name)} {old[name]}", "build")
    if old == new and before.columns != after.columns:
        same_order = list(old) == list(new)
        yield Difference("how its rows are made" if same_order else "the order of the columns", "build")


def _shape(before: View, after: View) -> Iterator[Difference]:
    """Describe what the default question makes of the rows."""
    old, new = before.shape or Shape(), after.shape or Shape()
    if old.having != new.having:
        missing = _missing(before, after, [new.having] if new.having else [])
        yield _needs(missing, f"having: {describe_having(before)} → {describe_having(after)}")
    if old.order != new.order:
        missing = _missing(before, after, [item.expression for item in new.order])
        yield _needs(missing, f"order: {describe_order(before)} → {describe_order(after)}")
    if old.limit != new.limit:
        yield Difference(f"limit: {old.limit or 'none'} → {new.limit or 'none'}", "free")


def _renamed(before: View, after: View) -> dict[str, Output]:
    """The new names of columns whose old name is gone: for each, the column that it was."""
    names = {output.name for output in outputs_of(after)}
    removed = [output for output in outputs_of(before) if output.name not in names]
    known = {output.name for output in outputs_of(before)}
    renamed: dict[str, Output] = {}
    for output in outputs_of(after):
        same = next((old for old in removed if old.expression == output.expression), None)
        if output.name not in known and same is not None:
            removed.remove(same)
            renamed[output.name] = same
    return renamed


def _change(before: View, old_output: Output, after: View, output: Output) -> str:
    old, new = describe_output(before, old_output), describe_output(after, output)
    if old != new:
        return f"column changed: {old} → {new}"
    # The same text has another meaning only by the type of what it reads.
    return f"argument of {output.name}: {_argument_types(before, old_output)} → {_argument_types(after, output)}"


def _argument_types(view: View, output: Output) -> str:
    names = output.expression.fields()
    aggregates = [column.aggregate for column in view.columns if aggregate_id(column.aggregate) in names]
    return ", ".join(str(argument.type) for aggregate in aggregates for argument in aggregate.arguments)


def _because_there(before: View, after: View, output: Output, text: str) -> Difference:
    """A column with another meaning is free if its aggregates are there."""
    missing = _missing(before, after, [output.expression])
    if missing:
        computed = output.expression.sql not in {aggregate_id(column.aggregate) for column in after.columns}
        return _needs(missing, text) if computed else Difference(text, "build")
    same = next((old.name for old in outputs_of(before) if old.expression == output.expression), None)
    return Difference(text if same is None else f"{text}, which is there as {same}", "free")


def _missing(before: View, after: View, expressions: Sequence[Expression]) -> list[Aggregate]:
    """The aggregates in these expressions that the rows do not hold."""
    names = set[str]().union(*(expression.fields() for expression in expressions))
    known = {column.aggregate.stored_as for column in before.columns}
    columns = [column.aggregate for column in after.columns if aggregate_id(column.aggregate) in names]
    return [aggregate for aggregate in columns if aggregate.stored_as not in known]


def _needs(missing: Sequence[Aggregate], text: str) -> Difference:
    if not missing:
        return Difference(text, "free")
    return Difference(f"{text}, which needs {', '.join(dict.fromkeys(each.sql for each in missing))}", "build")


def _promises(before: View, after: View, patience_ms: tuple[Patience, Patience]) -> Iterator[Difference]:
    """Settings that decide when something is done with rows, not what is in them."""
    old, new = patience_ms
    for stream in sorted(old.keys() & new.keys()):
        if old[stream] != new[stream]:
            what = "patience" if len(after.streams) == 1 else f"patience of {stream}"
            yield Difference(f"{what}: {format_duration(old[stream])} → {format_duration(new[stream])}", "free")
    if before.schedule_ms != after.schedule_ms:
        yield Difference(f"schedule: {describe_schedule(before)} → {describe_schedule(after)}", "free")


def _panes(view: View) -> int | Window | None:
    """What panes depend on; of sessions also the gap."""
    if view.window and view.window.session:
        return replace(view.window, start_name=None, end_name=None)
    return view.window.pane_ms if view.window else None


def describe_output(view: View, output: Output) -> str:
    """A column as SELECT writes it."""
    return f"{written(view, output.expression)} AS {quote(output.name)}"


def describe_having(view: View) -> str:
    """The rows that answers show."""
    return written(view, view.shape.having) if view.shape and view.shape.having else "all rows"


def describe_order(view: View) -> str:
    """The order of rows in answers."""
    return written_order(view, view.shape.order) if view.shape and view.shape.order else "by window and key"


def describe_window(window: Window | None) -> str:
    """A window in words."""
    if window is None:
        return "all time"
    bounds = {"window_start": window.start_name, "window_end": window.end_name}
    names = "".join(f", {bound} AS {name}" for bound, name in bounds.items() if name)
    gap = f", {window.gap} ms" if window.gap else ""
    return f"{window.words}{gap}{names}"


def describe_view(view: View) -> Iterator[str]:
    """The parts of a view, a line each."""
    yield f"stream: {', '.join(view.streams)}" if view.over is None else f"table: {_describe_over(view)}"
    for stream, steps in describe_relation(view.relation).items() if view.relation else ():
        yield f"rows of {stream}: {steps}"
    if view.where:
        yield f"where: {view.where}"
    yield f"keys: {describe_keys(view)}"
    yield f"window: {describe_window(view.window)}"
    for output in outputs_of(view):
        yield f"column: {describe_output(view, output)}"
    shape = view.shape or Shape()
    if shape.having:
        yield f"having: {describe_having(view)}"
    if shape.order:
        yield f"order: {describe_order(view)}"
    if shape.limit:
        yield f"limit: {shape.limit:,}"
    if view.schedule_ms:
        yield f"schedule: {describe_schedule(view)}"


def _describe_over(view: View) -> str:
    if view.over is None:
        return "none"
    return view.over.table + (f", time {view.over.event_time}" if view.over.event_time else "")


def describe_keys(view: View) -> str:
    """The keys as SELECT writes them."""
    names = ((quote(key.name), str(key.expression)) for key in view.keys)
    keys = (name if name == sql else f"{sql} AS {name}" for name, sql in names)
    return ", ".join(keys) or "none"


def describe_schedule(view: View) -> str:
    """Describe how often a view is refreshed."""
    return f"every {format_duration(view.schedule_ms)}" if view.schedule_ms else "none"


def choose_way(versions: Sequence[Version], view: View, patience_ms: Patience) -> Way | None:
    """Choose how to get the rows of a wanted view; None if its version exists or is being made."""
    own = [version for version in versions if version.view.name == view.name]
    serving = next((version for version in own if version.serving), None)
    coming = next((version for version in own if version.live and not version.serving), None)
    target = fingerprint(view)
    newest = coming or serving
    if newest and (newest.fingerprint, newest.patience_ms) == (target, patience_ms):
        return None
    if coming and serving and (serving.fingerprint, serving.patience_ms) == (target, patience_ms):
        return Way("stop", coming.number)
    for version in (serving, coming):
        if version and classify(version.view, view, (version.patience_ms, patience_ms)).free:
            return Way("adopt", version.number)
    kept = [version for version in own if can_return(version) and version.fingerprint == target]
    if kept:
        return Way("revive", max(kept, key=lambda version: version.changed_at_us).number)
    return Way("build")


def can_return(version: Version) -> bool:
    """Return whether it is retired and still has its rows."""
    return version.state == "retired" and version.complete
