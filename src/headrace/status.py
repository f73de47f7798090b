"""What a running workspace says of itself: its streams, its views, how fresh they are, and whether all is well."""

from __future__ import annotations

import os
import time
from typing import Any

from headrace.config import Workspace
from headrace.definitions import Definitions
from headrace.describe import describe_view, memory_mb, read_layers, warnings
from headrace.errors import HeadraceError
from headrace.store.base import Store, Version
from headrace.timing import Timing

SILENT_S = 5.0  # a pipeline whose heartbeat is older cannot say how fresh it is


class Status:
    """Told that the pipelines live (`beat`) or why the process must stop (`failed`); asked for everything else."""

    def __init__(self, workspace: Workspace, url: str, store: Store, definitions: Definitions) -> None:
        self.failed: HeadraceError | None = None
        self._workspace = workspace
        self._url = url
        self._store = store
        self._definitions = definitions
        self._beat: float | None = None

    def beat(self) -> None:
        """The pipelines were looked after just now."""
        self._beat = time.monotonic()

    def whole(self) -> dict[str, Any]:
        """All of it."""
        health = self.health()
        return {
            "workspace": self._workspace.name,
            "folder": str(self._workspace.folder),
            "url": self._url,
            "pid": os.getpid(),
            "state": health["status"],
            "warnings": health["warnings"],
            "heartbeat_ms": None if self._beat is None else round((time.monotonic() - self._beat) * 1000),
            "memory_mb": memory_mb(),
            "streams": self.streams(),
            "views": self.views(),
        }

    def streams(self) -> list[dict[str, Any]]:
        """The streams with their numbers."""
        pipelines = self._definitions.pipelines
        return [pipelines[name].describe() for name in sorted(pipelines)]

    def views(self) -> list[dict[str, Any]]:
        """The views with version and freshness."""
        with self._store.snapshot() as snapshot:
            versions = snapshot.versions()
            layers = read_layers(snapshot, versions)
        coming = {v.view.name: v for v in versions if v.live and not v.serving}
        described = []
        for name in sorted(self._definitions.catalog.views):
            view = self._definitions.catalog.views[name]
            serving = next((v for v in versions if v.view.name == name and v.serving), None)
            fresh = self.freshness(serving) if serving else (None, "it is being built")
            pipeline = self._definitions.pipelines[view.stream]
            lag_bytes = pipeline.lag_bytes(serving) if serving else None
            commits = pipeline.lake.next_commit if pipeline.lake else None
            building = pipeline.progress(coming[name]) if name in coming else None
            audits = pipeline.batch.audits[name] if pipeline.batch else 0
            described.append(
                describe_view(view, versions, commits, fresh, lag_bytes, layers.get(name), building, audits)
            )
        return described

    def timings(self) -> dict[str, dict[str, Timing]]:
        """Per stream, how long lake commits and steps of maintain took since the process began."""
        pipelines = self._definitions.pipelines
        return {name: pipelines[name].timings() for name in sorted(pipelines)}

    def health(self) -> dict[str, Any]:
        """Whether events flow, and what somebody has to look at; taking them in and answering work either way."""
        with self._store.snapshot() as snapshot:
            found = warnings(snapshot.versions())
        return {**self._state(), "warnings": found}

    def freshness(self, version: Version) -> tuple[int | None, str | None]:
        """The age in ms of the oldest accepted event that a version has not; or why it is not known."""
        pipeline = self._definitions.pipelines.get(version.view.stream)
        if pipeline is None:
            return None, "its stream is gone"
        fresh = pipeline.freshness(version)
        if not fresh[0]:  # all is in it, or there is a reason why that is not known
            return fresh
        if self._beat is None:
            return None, "the pipeline is starting"
        return (None, "the pipeline does not answer") if self._silent() else fresh

    def _state(self) -> dict[str, Any]:
        if self.failed is not None:
            return {"status": "failing", "reason": str(self.failed)}
        if self._beat is None:
            return {"status": "starting", "reason": "Spark is starting"}
        if self._silent():
            return {"status": "failing", "reason": "the pipeline does not answer"}
        pipelines = self._definitions.pipelines.values()
        broken = [f"stream '{pipeline.stream.name}': {pipeline.error}" for pipeline in pipelines if pipeline.error]
        return {"status": "failing", "reason": "; ".join(broken)} if broken else {"status": "ok", "reason": None}

    def _silent(self) -> bool:
        return self._beat is not None and time.monotonic() - self._beat > SILENT_S
