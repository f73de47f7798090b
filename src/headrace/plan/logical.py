"""What a plan says of logical views: each change of one is free, since nothing of it is stored."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.define.definitions import Catalog
from headrace.define.model import LogicalView
from headrace.plan.change import Change

_CREATE = "free: it is computed whenever it is asked"
_CHANGE = "free: the next question is answered by the new definition"
_DROP = "nothing of it is stored"


def logical_changes(running: Catalog, target: Catalog) -> Iterator[Change]:
    """The logical views to create and to change."""
    for name, view in target.logical.items():
        before = running.logical.get(name)
        if before is None:
            yield Change("create", "logical view", name, _CREATE, tuple(describe_logical(view)))
        elif before != view:
            yield Change("change", "logical view", name, _CHANGE, tuple(_differences(before, view)))


def logical_drops(running: Catalog, target: Catalog) -> Iterator[Change]:
    """The logical views that are dropped, each before those that it reads."""
    for name in reversed(list(running.logical)):
        if name not in target.logical:
            yield Change("drop", "logical view", name, _DROP)


def describe_logical(view: LogicalView) -> Iterator[str]:
    """The parts of a logical view, a line each."""
    yield f"reads: {', '.join(view.reads)}"
    yield from (f"column {name}: {of}" for name, of in view.columns)


def _differences(before: LogicalView, after: LogicalView) -> Iterator[str]:
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
