"""Finds the views that a query names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.define.model import LogicalView
from headrace.errors import NotFoundError, SqlError, did_you_mean
from headrace.serve.evaluate import find_serving
from headrace.store.base import Snapshot
from headrace.store.version import Version


def find_parts(
    names: Sequence[str], serving: Mapping[str, Version], logical: Mapping[str, LogicalView]
) -> tuple[list[LogicalView], list[str]]:
    """The logical views among these names, each after those that it reads, and the other names of all of them."""
    computed: dict[str, LogicalView] = {}
    others: dict[str, None] = {}

    def add(name: str) -> None:
        own = None if name in serving else resolve(name, logical)
        if own is None:
            others[name] = None
        elif own not in computed:
            for part in logical[own].reads:
                add(part)
            computed[own] = logical[own]

    for name in names:
        add(name)
    return list(computed.values()), list(others)


def find_versions(
    snapshot: Snapshot,
    serving: Mapping[str, Version],
    names: Sequence[str],
    own: Sequence[str],
    logical: Mapping[str, LogicalView],
) -> list[Version]:
    """The serving versions of the views that a query names; names are case-insensitive unless that is ambiguous."""
    versions: dict[str, Version] = {}
    for name in names:
        view = resolve(name, serving)
        if view is None:
            if name.lower() in map(str.lower, own):
                continue  # a common table expression of the query
            if any(version.view.name == name and version.live for version in snapshot.versions()):
                find_serving(snapshot, name)  # raises: it is being built
            known = sorted({*serving, *logical})
            hint = did_you_mean(name, known) or f"there are: {', '.join(known) or 'none yet'}"
            raise NotFoundError(
                f"view '{name}' does not exist",
                fix=f"{hint}; query the events of a stream with `headrace sql --events`",
            )
        other = versions.setdefault(view.lower(), serving[view])
        if other.view.name != view:
            raise SqlError(
                f"views '{other.view.name}' and '{view}' differ only in case, which SQL does not distinguish",
                fix="use them in two queries",
            )
    return list(versions.values())


def resolve(name: str, views: Mapping[str, object]) -> str | None:
    """The name of a view as it is declared; None: there is none, or several differ only in case."""
    if name in views:
        return name
    alike = [view for view in views if view.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None
