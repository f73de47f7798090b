"""Rollback to an earlier version of a view: which one, and its cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.define.definitions import Catalog
from headrace.errors import ConflictError, NotFoundError
from headrace.name_encoding import shell
from headrace.plan.cost import Costs, Way
from headrace.plan.differences import build_change, free_reason
from headrace.plan.edits import can_return, choose_way, classify
from headrace.plan.planned_change import PlannedChange, RollbackStep
from headrace.store.version import Version


@dataclass(frozen=True)
class RollbackPlan:
    """The way from the version that serves to an earlier one, as a step of a plan."""

    serving: int
    to: Version
    way: Way
    change: PlannedChange

    @property
    def step(self) -> RollbackStep:
        """The step that people are shown."""
        return RollbackStep(self.serving, self.to.number, self.change)


def plan_rollback(
    versions: Sequence[Version], catalog: Catalog, view: str, number: int | None, costs: Costs
) -> RollbackPlan:
    """Describe the way back; raises if there is nothing to go back to."""
    own = [version for version in versions if version.view.name == view]
    serving = next((version for version in own if version.serving), None)
    if serving is None:
        raise ConflictError(
            f"view '{view}' is being built for the first time", fix="there is no version to roll back to yet"
        )
    to = _chosen(own, serving, number)
    _check_types(to, catalog)
    patience_ms = catalog.patience_ms(to.view)
    way = Way("revive", to.number) if can_return(to) else choose_way(own, to.view, patience_ms)
    if way is None:
        raise ConflictError(
            f"view '{view}': version {to.number} has the definition of the serving version, and its rows were deleted",
            fix="there is nothing to roll back; `headrace refresh --full` rebuilds the view",
        )
    edit = classify(serving.view, to.view, (serving.patience_ms, patience_ms))
    if way.kind == "build":
        change = build_change("change", to.view, costs, edit.details)
    else:
        change = PlannedChange("change", "view", view, free_reason(way), edit.texts)
    return RollbackPlan(serving.number, to, way, change)


def _chosen(own: Sequence[Version], serving: Version, number: int | None) -> Version:
    view = serving.view.name
    coming = [version for version in own if version.live and not version.serving]
    if number is None:
        if coming:
            return serving  # the way back from an edit that is being built is what serves
        retired = [version for version in own if version.state == "retired"]
        if not retired:
            raise ConflictError(
                f"view '{view}' has no earlier version to roll back to",
                found=f"version {serving.number}, which serves, only",
                fix="replaced versions are kept for a day (`retire_after_s`), at most five per view",
            )
        return max(retired, key=lambda version: version.changed_at_us)
    target = next((version for version in own if version.number == number), None)
    if target is None:
        known = ", ".join(str(version.number) for version in own)
        raise NotFoundError(
            f"view '{view}' has no version {number}", found=known, fix=f"`headrace versions {shell(view)}` lists them"
        )
    if target in coming or (target is serving and not coming):
        raise ConflictError(
            f"view '{view}': version {number} {'serves already' if target is serving else 'is already in progress'}",
            fix=f"`headrace versions {shell(view)}` lists the replaced versions",
        )
    return target


def _check_types(to: Version, catalog: Catalog) -> None:
    """Check that what it reads is there with its types: it was understood by these."""
    what = f"view '{to.view.name}' version {to.number}"
    for stream in to.view.streams:
        if stream not in catalog.streams:
            raise ConflictError(f"{what} reads stream '{stream}', which no longer exists")
        types = catalog.streams[stream].types()
        for name, of in to.view.reads_of(stream):
            if types.get(name) != of:
                raise ConflictError(
                    f"{what} reads field '{name}' with its earlier type",
                    found=f"{types.get(name) or 'no such field'} in stream '{stream}'",
                    expected=str(of),
                    fix="edit the definition instead and apply it",
                )
