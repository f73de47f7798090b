"""Chooses the cheapest way from the stored versions to the rows of a wanted definition."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.define.fingerprint import fingerprint
from headrace.define.model import View
from headrace.plan.cost import Way
from headrace.plan.edits import Patience, classify
from headrace.store.version import Version


def choose_way(versions: Sequence[Version], view: View, patience_ms: Patience) -> Way | None:
    """How to get the rows of a wanted view; None if its version exists or is being made."""
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
    """Whether it is retired and still has its rows."""
    return version.state == "retired" and version.whole
