"""The definitions that run: planned, applied, rolled back, and made true in pipelines and store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog

from headrace.define.catalog import Catalog, load
from headrace.define.fingerprint import has_code
from headrace.define.logical_views import check_again
from headrace.define.model import LogicalView, Stream, View
from headrace.errors import ConflictError, CorruptionError, DefinitionError, UnavailableError
from headrace.faults import fault_point
from headrace.language.source_text import each
from headrace.lazy import later
from headrace.plan.differences import checked_plan, compare
from headrace.plan.planned_change import Plan, RollbackStep
from headrace.server.composed_status import refuse_logical
from headrace.server.damaged_stream import DamagedStream
from headrace.server.neighbours import Neighbours
from headrace.server.pipeline import Pipeline
from headrace.server.reconcile import reconcile_views
from headrace.server.running_stream import Running, RunningStream
from headrace.server.view_versions import ViewVersions
from headrace.store.store_contract import Store
from headrace.workspace.applied_catalog import read_running, write_running
from headrace.workspace.lease import Lease
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.maintain import partials_job, udf_checks
else:  # loaded by their first use
    partials_job = later("headrace.maintain.partials_job")
    udf_checks = later("headrace.maintain.udf_checks")

log = structlog.get_logger("headrace.definitions")


class AppliedDefinitions:
    """Holds the catalog and a pipeline for each base stream. An edit is the catalog first, then what it asks for."""

    def __init__(
        self,
        workspace: Workspace,
        lease: Lease,
        store: Store,
        spark: Callable[[], SparkSession | None],
        start: Callable[[RunningStream], None],  # with Spark, as soon as there is one
        stopping: Callable[[], bool],
    ) -> None:
        self._workspace = workspace
        self._lease = lease
        self._store = store
        self._spark = spark
        self._start = start
        self._stopping = stopping
        self._neighbours = Neighbours(lambda: self.running)
        self.changing = threading.RLock()  # apply, start and stop of pipelines; nobody who only reads takes it
        self.running = Running(read_running(workspace.catalog_file), {})
        self.versions = ViewVersions(workspace, store, lambda: self.running.pipelines, lambda: self.running.catalog)
        self.on_applied: Callable[[Catalog], None] = lambda catalog: None  # sinks and alerts follow
        self.notify: Callable[[], None] = lambda: None  # readers look again
        self._reconcile(self.running.catalog)

    def compare(self) -> Plan:
        """What the definitions folder asks for, against what runs."""
        return compare(self._in_effect(), load(self._workspace.definitions), self.versions.costs())

    def take_over(self, expect: str | None = None) -> Plan:
        """Apply the definitions folder; `expect` is the fingerprint of the plan that a person agreed to."""
        try:
            with self.changing:
                catalog = load(self._workspace.definitions)
                plan = checked_plan(self._in_effect(), catalog, expect, self.versions.costs())
                self._analyse(catalog)
                self._refuse_if_stopping("nothing was changed; apply again when it runs")
                write_running(self._workspace.catalog_file, catalog)
                fault_point("edit.after_catalog")
                self._reconcile(catalog)
                self.on_applied(catalog)
            return plan
        finally:
            self.notify()

    def roll_back(self, view: str, to: int | None = None, *, dry_run: bool = False) -> RollbackStep:
        """Roll a view back to an earlier version; with `dry_run`, only return what that takes."""
        refuse_logical(self.running.catalog.logical, view, "versions")
        try:
            with self.changing:
                return self._roll_back(view, to, dry_run=dry_run)
        finally:
            self.notify()

    def _roll_back(self, view: str, to: int | None, *, dry_run: bool) -> RollbackStep:
        catalog = self.running.catalog
        if view in catalog.tables:
            raise ConflictError(
                f"'{view}' is a table, which has no earlier version to go back to",
                fix="restore its earlier definition and apply; `headrace ask --version-as-of` shows earlier rows",
            )
        rollback = self.versions.plan_rollback(catalog, view, to)
        if not dry_run:
            views = {**catalog.views, view: rollback.to.view}
            logical = self._logical_after(view, catalog, views)
            target = replace(catalog, views=views, logical=logical, locations={})
            write_running(self._workspace.catalog_file, target)
            fault_point("edit.after_catalog")
            if rollback.way.kind == "revive":
                self._store.revive(view, rollback.to.number)
            self._reconcile(target)
        return rollback.step

    def _logical_after(self, view: str, catalog: Catalog, views: Mapping[str, View]) -> dict[str, LogicalView]:
        """The logical views when a view has another form; refuses if one of them cannot be computed then."""
        try:
            return check_again(catalog.logical.values(), views)
        except DefinitionError as error:
            message = each(error)[0].message
            raise ConflictError(
                f"view '{view}' cannot go back: {message}", fix="change the logical view first"
            ) from None

    def _in_effect(self) -> Catalog:
        """What runs. After an apply that failed half-way this is not what was asked for: it can be repeated."""
        running = self.running
        derived = {name: stream for name, stream in running.catalog.streams.items() if stream.relation is not None}
        streams = {**{name: pipeline.stream for name, pipeline in running.pipelines.items()}, **derived}
        return replace(running.catalog, streams=streams, locations={})

    def _refuse_if_stopping(self, fix: str) -> None:
        if self._stopping():
            raise UnavailableError("the server is stopping", fix=fix)

    def _go_on(self) -> None:
        """Between two steps once the catalog is written: a server that stops leaves the rest to its next start."""
        self._refuse_if_stopping("the rest is done at the next start")

    def _analyse(self, catalog: Catalog) -> None:
        """Let Spark look at each new view before anything changes."""
        spark = self._spark()
        if spark is None:
            return  # a view that Spark cannot run will be stalled with its reason
        for view in catalog.views.values():
            self._refuse_if_stopping("nothing was changed; apply again when it runs")
            if view.over is None and self.versions.needs_build(view, catalog.patience_ms(view)):
                reasons = (partials_job.analyse(spark, catalog.streams[stream], view) for stream in view.streams)
                reason = next(filter(None, reasons), None)
                if reason:
                    where = catalog.locations.get(view.name)
                    raise DefinitionError(f"view '{view.name}': Spark refuses it: {reason}", where=where)
                self._try_code(catalog, view)

    def _try_code(self, catalog: Catalog, view: View) -> None:
        """Refuse a view that calls a function or an aggregate of the workspace which breaks its law on real events."""
        if not has_code(view):
            return
        for name in view.streams:
            pipeline = self.running.pipelines.get(name)
            lake = pipeline.lake if pipeline else None
            if pipeline is None or lake is None or not lake.next_commit:
                continue
            events = udf_checks.newest_events(
                pipeline.table, catalog.streams[name], [field for field, _ in view.reads_of(name)]
            )
            reason = None if events is None else udf_checks.refuse_code(catalog.streams[name], view, events)
            if reason:
                raise DefinitionError(f"view '{view.name}': {reason}", where=catalog.locations.get(view.name))

    def _reconcile(self, catalog: Catalog) -> None:
        """Make pipelines and store what a catalog says. Safe to repeat after a crash or a failure at any point."""
        for name, stream in catalog.base_streams.items():
            self._go_on()
            pipeline = self.running.pipelines.get(name)
            if pipeline is None:
                self._publish(self.running.catalog, {**self.running.pipelines, name: self._open_pipeline(stream)})
            elif pipeline.stream.source != stream.source:  # its transport is opened with the new options
                pipeline.close()
                self._publish(self.running.catalog, {**self.running.pipelines, name: self._open_pipeline(stream)})
            elif pipeline.stream != stream:
                pipeline.redefine(stream)
        pipelines = self.running.pipelines
        lakes = {name: pipeline.lake for name, pipeline in pipelines.items()}
        known = {name: lake for name, lake in lakes.items() if lake is not None}
        tables = {name: lake.next_commit for name, lake in known.items()}
        reconcile_views(
            self._store, catalog, known, lambda stream: pipelines[stream].between_steps(), self._go_on, tables
        )
        # Last, for the views of the catalog before need them until here.
        self._publish(catalog, {name: pipelines[name] for name in catalog.base_streams})
        for name, pipeline in pipelines.items():
            if name in catalog.base_streams:
                pipeline.wake()
            else:
                pipeline.close()

    def _publish(self, catalog: Catalog, pipelines: dict[str, RunningStream]) -> None:
        self.running = Running(catalog, MappingProxyType(pipelines))

    def _open_pipeline(self, stream: Stream) -> RunningStream:
        """A stream whose files are damaged reports the damage, and other streams continue."""
        try:
            pipeline = Pipeline(self._workspace, stream, self._lease, self._store, self._neighbours)
        except CorruptionError as error:
            log.error("a stream is damaged", stream=stream.name, error=str(error))
            return DamagedStream(stream, error)
        try:
            self._start(pipeline)
        except BaseException:
            pipeline.close()
            raise
        return pipeline
