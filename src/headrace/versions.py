"""The versions of running views: what is said of them, and what is asked of the batch layer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from headrace.describe import describe_audit, describe_version
from headrace.errors import NotFoundError, NotReadyError, did_you_mean
from headrace.pipeline import Pipeline
from headrace.store.base import Point, Store, Version


class Versions:
    """Lists, refreshes and audits the views of a store."""

    def __init__(self, store: Store, pipeline: Callable[[str], Pipeline]) -> None:
        self._store = store
        self._pipeline = pipeline  # of a stream

    def of(self, view: str) -> list[dict[str, Any]]:
        """The versions of a view, newest first."""
        self._find(view)
        with self._store.snapshot() as snapshot:
            own = [v for v in snapshot.versions() if v.view.name == view]
            return [describe_version(v, snapshot.count(v)) for v in reversed(own)]

    def audits(self, view: str) -> list[dict[str, Any]]:
        """What came of comparing the two layers of a view, newest first."""
        self._find(view)
        with self._store.snapshot() as snapshot:
            return [describe_audit(audit) for audit in snapshot.audits(view)]

    def refresh(self, view: str, *, full: bool) -> dict[str, Any]:
        """Have the batch layer take over what the speed layer has; in full: build the view anew beside it."""
        version = self._find(view)
        pipeline = self._pipeline(version.view.stream)
        if pipeline.batch is None:
            raise NotReadyError(f"view '{view}' cannot be refreshed yet: Spark is starting", fix="repeat it soon")
        if full:
            state = pipeline.table.state
            at = Point(state.next_commit, state.position, state.newest_us)
            version = self._store.register(version.view, version.fingerprint, version.patience_ms, at)
        elif not version.serving:
            raise NotReadyError(f"view '{view}' is being built", fix="there is nothing to refresh yet")
        else:
            pipeline.batch.refresh(view)
        return {"view": view, "version": version.number, "horizon": version.horizon, "applied_to": version.applied_to}

    def _find(self, view: str) -> Version:
        """The version that serves, or that will."""
        with self._store.snapshot() as snapshot:
            versions = [version for version in snapshot.versions() if version.live]
        own = [version for version in versions if version.view.name == view]
        if not own:
            raise _unknown(view, {version.view.name for version in versions})
        return max(own, key=lambda version: version.serving)


def _unknown(view: str, known: Collection[str]) -> NotFoundError:
    hint = did_you_mean(view, known)
    return NotFoundError(f"view '{view}' does not exist", fix=f"{hint + ' ' if hint else ''}`headrace views` lists all")
