"""The definitions that run: planned, applied, rolled back, and made true in pipelines and store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog

from headrace.config import Workspace
from headrace.damaged import DamagedPipeline
from headrace.define.catalog import Catalog, load
from headrace.define.model import Stream
from headrace.define.plan import Plan, checked_plan, compare
from headrace.errors import CorruptionError, DefinitionError
from headrace.faults import fault_point
from headrace.lease import Lease
from headrace.pipeline import Pipeline
from headrace.reconcile import reconcile_views
from headrace.running import read_running, write_running
from headrace.store.base import Store
from headrace.versions import Versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger("headrace.definitions")


class Definitions:
    """Holds the catalog and a pipeline for each of its streams. An edit is the catalog first, then what it asks for."""

    def __init__(
        self,
        workspace: Workspace,
        lease: Lease,
        store: Store,
        spark: Callable[[], SparkSession | None],
        start: Callable[[Pipeline], None],  # with Spark, as soon as there is one
    ) -> None:
        self._workspace = workspace
        self._lease = lease
        self._store = store
        self._spark = spark
        self._start = start
        self.changing = threading.RLock()  # apply, start and stop of pipelines
        self.pipelines: dict[str, Pipeline] = {}
        self.versions = Versions(workspace, store, self.pipelines)
        self.catalog = read_running(workspace.catalog_file)
        self._reconcile(self.catalog)

    def plan(self) -> Plan:
        """What the definitions folder asks for, against what runs."""
        return compare(self._running(), load(self._workspace.definitions), self.versions.costs())

    def apply(self, expect: str | None = None) -> Plan:
        """Make what is wanted run. `expect` is the fingerprint of the plan that a person said yes to."""
        with self.changing:
            wanted = load(self._workspace.definitions)
            plan = checked_plan(self._running(), wanted, expect, self.versions.costs())
            self._analyse(wanted)
            write_running(self._workspace.catalog_file, wanted)
            fault_point("edit.after_catalog")
            self._reconcile(wanted)
        return plan

    def rollback(self, view: str, to: int | None = None, *, dry_run: bool = False) -> dict[str, Any]:
        """Make a view what it was in an earlier version; with `dry_run`, say what that takes."""
        with self.changing:
            found = self.versions.rollback(self.catalog, view, to)
            if not dry_run:
                wanted = Catalog(self.catalog.streams, {**self.catalog.views, view: found.to.view})
                write_running(self._workspace.catalog_file, wanted)
                fault_point("edit.after_catalog")
                if found.way.kind == "revive":
                    self._store.revive(view, found.to.number)
                self._reconcile(wanted)
        return found.as_dict()

    def all_pipelines(self) -> list[Pipeline]:
        """Those that are there now."""
        with self.changing:
            return list(self.pipelines.values())

    def _running(self) -> Catalog:
        """What runs. After an apply that failed half-way this is not what was asked for: it can be repeated."""
        pipelines = dict(self.pipelines)
        return Catalog({name: pipeline.stream for name, pipeline in pipelines.items()}, self.catalog.views)

    def _analyse(self, wanted: Catalog) -> None:
        """Let Spark look at each new view before anything changes."""
        spark = self._spark()
        if spark is None:
            return  # a view that Spark cannot run will be stalled with its reason
        from headrace.maintain.partials import analyse

        for view in wanted.views.values():
            stream = wanted.streams[view.stream]
            if self.versions.needs_build(view, stream.patience_ms):
                reason = analyse(spark, stream, view)
                if reason:
                    where = wanted.locations.get(view.name)
                    raise DefinitionError(f"view '{view.name}': Spark refuses it: {reason}", where=where)

    def _reconcile(self, wanted: Catalog) -> None:
        """Make pipelines and store what a catalog says. Safe to repeat after a crash or a failure at any point."""
        for name, stream in wanted.streams.items():
            running = self.pipelines.get(name)
            if running is not None and running.stream != stream:
                running.redefine(stream)
            if running is None:
                pipeline = self._open_pipeline(stream)
                self._start(pipeline)
                self.pipelines[name] = pipeline
        lakes = {name: pipeline.lake for name, pipeline in self.pipelines.items()}
        known = {name: lake for name, lake in lakes.items() if lake is not None}
        reconcile_views(self._store, wanted, known, lambda stream: self.pipelines[stream].between_steps())
        self.catalog = wanted
        # Last, for the views of the catalog before need them until here.
        for name in [name for name in self.pipelines if name not in wanted.streams]:
            self.pipelines.pop(name).close()
        for pipeline in self.pipelines.values():
            pipeline.wake()

    def _open_pipeline(self, stream: Stream) -> Pipeline:
        """A stream whose files are damaged stands alone: it says so, and others go on."""
        try:
            return Pipeline(self._workspace, stream, self._lease, self._store)
        except CorruptionError as error:
            log.error("a stream is damaged", stream=stream.name, error=str(error))
            return DamagedPipeline(stream, error)
