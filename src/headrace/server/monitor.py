"""What a running workspace says of itself: its streams, its views, how fresh they are, and whether all is well."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from headrace.define.model import Stream, View
from headrace.errors import HeadraceError
from headrace.serve.freshness import Age, Fresh
from headrace.server.applied_definitions import AppliedDefinitions
from headrace.server.composed_status import describe_tables
from headrace.server.describe_stream import describe_derived
from headrace.server.describe_view import (
    LayerCounts,
    add_up,
    describe_build,
    describe_view,
    join_freshness,
    join_lanes,
    memory_mb,
    read_layers,
    warnings,
)
from headrace.server.running_stream import Lanes, Running
from headrace.server.status import BuildStatus, Health, StreamStatus, TableStatus, ViewStatus, WorkspaceStatus
from headrace.spark.process import SparkProcess
from headrace.store.store_contract import Store
from headrace.store.version import Version
from headrace.timing import Timing
from headrace.workspace.settings import Workspace

SILENT_S = 5.0  # a pipeline whose heartbeat is older cannot say how fresh it is


class Monitor:
    """Told that the pipelines live (`beat`) or why the process must stop (`failed`); asked for everything else."""

    def __init__(
        self, workspace: Workspace, url: str, store: Store, definitions: AppliedDefinitions, spark: SparkProcess
    ) -> None:
        self.failed: HeadraceError | None = None
        self.warming_up: str | None = "Spark is starting"  # what is missing until a first event would flow
        self.count_failed: Callable[[Stream], int | None] = lambda stream: None  # dead letters of a derived stream
        self._spark = spark
        self._workspace = workspace
        self._url = url
        self._store = store
        self._definitions = definitions
        self._beat: float | None = None

    @property
    def starting(self) -> bool:
        """Whether Spark has never run yet."""
        return self._beat is None

    def beat(self) -> None:
        """The pipelines were looked after just now."""
        self._beat = time.monotonic()

    def describe_workspace(self) -> WorkspaceStatus:
        """All of it."""
        running = self._definitions.running
        health = self._health(running)
        return WorkspaceStatus(
            workspace=self._workspace.name,
            folder=str(self._workspace.folder),
            url=self._url,
            pid=os.getpid(),
            state=health.status,
            warnings=health.warnings,
            heartbeat_ms=None if self._beat is None else round((time.monotonic() - self._beat) * 1000),
            memory_mb=memory_mb(),
            streams=tuple(self._describe_streams(running)),
            views=tuple(self._describe_views(running)),
        )

    def describe_streams(self) -> list[StreamStatus]:
        """The streams with their numbers."""
        return self._describe_streams(self._definitions.running)

    def _describe_streams(self, running: Running) -> list[StreamStatus]:
        derived = [stream for stream in running.catalog.streams.values() if stream.relation is not None]
        statuses = [pipeline.describe() for pipeline in running.pipelines.values()]
        statuses += [replace(describe_derived(each), dead_letters=self.count_failed(each)) for each in derived]
        tables = running.catalog.tables
        return sorted((replace(status, table=status.name in tables) for status in statuses), key=lambda each: each.name)

    def describe_views(self) -> list[ViewStatus]:
        """The views with version and freshness."""
        return self._describe_views(self._definitions.running)

    def describe_tables(self) -> list[TableStatus]:
        """The tables with rows, version and freshness."""
        running = self._definitions.running
        streams, views = self._describe_streams(running), self._describe_views(running)
        return describe_tables(running.catalog.tables, streams, views)

    def timings(self) -> dict[str, dict[str, Timing]]:
        """Per stream, how long lake commits and steps of maintain took since the process began."""
        return {name: pipeline.timings() for name, pipeline in sorted(self._definitions.running.pipelines.items())}

    def latencies(self) -> dict[str, dict[str, Timing]]:
        """Per stream and view, how long events took from their arrival until answers had them."""
        return {name: pipeline.latencies() for name, pipeline in sorted(self._definitions.running.pipelines.items())}

    def health(self) -> Health:
        """Whether events flow, and what somebody has to look at; taking them in and answering work either way."""
        return self._health(self._definitions.running)

    def freshness(self, version: Version) -> Fresh:
        """The age in ms of the oldest accepted event that a version has not; or why it is not known."""
        fresh = self._oldest(version)
        if not fresh.ms:  # all is in it, or there is a reason why that is not known
            return fresh
        if self._beat is None:
            return Fresh(None, "the pipeline is starting")
        return Fresh(None, "the pipeline does not answer") if self._silent() else fresh

    def _oldest(self, version: Version) -> Fresh:
        """The freshness of the stream in which a version is furthest behind; of several streams, that of each."""
        pipelines, ages = self._definitions.running.pipelines, dict[str, Age]()
        for base in version.bases:
            pipeline = pipelines.get(base.stream)
            ages[base.stream] = pipeline.freshness(base) if pipeline else (None, "its stream is gone")
        return join_freshness(ages)

    def _health(self, running: Running) -> Health:
        with self._store.snapshot() as snapshot:
            alarms = warnings(snapshot.versions())
        return Health(*self._state(running), alarms)

    def _describe_views(self, running: Running) -> list[ViewStatus]:
        with self._store.snapshot() as snapshot:
            versions = snapshot.versions()
            layers = read_layers(snapshot, versions)
        views = running.catalog.views
        lanes = join_lanes(pipeline.lanes(versions) for pipeline in running.pipelines.values())
        tables = running.catalog.tables
        return [
            replace(self._describe_view(running, views[name], versions, layers.get(name), lanes), table=name in tables)
            for name in sorted(views)
        ]

    def _describe_view(
        self, running: Running, view: View, versions: Sequence[Version], layers: LayerCounts | None, lanes: Lanes
    ) -> ViewStatus:
        """The store may be an edit ahead: a version in it may read a stream that was not there yet, or is no more."""
        live = [version for version in versions if version.live and version.view.name == view.name]
        serving = next((version for version in live if version.serving), None)
        coming = next((version for version in live if not version.serving), None)
        pipelines = [running.pipelines[stream] for stream in view.streams]
        return describe_view(
            view,
            versions,
            add_up(pipeline.lake.next_commit if pipeline.lake else None for pipeline in pipelines),
            self.freshness(serving) if serving else Fresh(None, "it is being built"),
            _lag_bytes(running, serving) if serving else None,
            layers,
            _build_status(running, coming) if coming else None,
            sum(pipeline.batch.audits[view.name] for pipeline in pipelines if pipeline.batch),
            lanes,
        )

    def _state(self, running: Running) -> tuple[str, str | None]:
        """The state in a word, and the reason for it."""
        if self.failed is not None:
            return "failing", str(self.failed)
        if self.warming_up:
            return "starting", self.warming_up
        if self._spark.trouble:
            restarting = self._spark.current is None and not self._spark.failed_starts
            return "restarting" if restarting else "failing", self._spark.trouble
        if self._silent():
            return "failing", "the pipeline does not answer"
        pipelines = running.pipelines.values()
        broken = [f"stream '{pipeline.stream.name}': {error}" for pipeline in pipelines if (error := pipeline.error)]
        return ("failing", "; ".join(broken)) if broken else ("ok", None)

    def _silent(self) -> bool:
        return self._beat is not None and time.monotonic() - self._beat > SILENT_S


def _lag_bytes(running: Running, version: Version) -> int | None:
    pipelines = [(running.pipelines.get(base.stream), base) for base in version.bases]
    return add_up(pipeline.lag_bytes(base) if pipeline else None for pipeline, base in pipelines)


def _build_status(running: Running, version: Version) -> BuildStatus | None:
    pipelines = [running.pipelines.get(stream) for stream in version.view.streams]
    parts = [pipeline.progress(version) for pipeline in pipelines if pipeline]
    return describe_build(version, parts) if len(parts) == len(pipelines) else None
