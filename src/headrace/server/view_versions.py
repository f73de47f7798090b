"""The versions of running views: what is said of them, what an edit of one takes, and going back to an earlier one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from headrace.define.definitions import Catalog
from headrace.define.model import View
from headrace.errors import NotReadyError, QuestionError, StartingError, unknown
from headrace.plan.cost import Costs, Size, lake_size, load_now, unread_size
from headrace.plan.edits import choose_way
from headrace.plan.rollback import RollbackPlan, plan_rollback
from headrace.server.composed_status import refuse_logical
from headrace.server.describe_versions import describe_versions
from headrace.server.describe_view import describe_audit, join_lanes
from headrace.server.reconcile import pin_tables, point_of
from headrace.server.running_stream import RunningStream
from headrace.server.status import AuditStatus, RefreshStatus, VersionStatus
from headrace.store.store_contract import Store
from headrace.store.version import Pinned, Point, Version
from headrace.workspace.settings import Workspace

RETRIED = "the server retries; its last rows are served until then"


class ViewVersions:
    """Lists, refreshes and audits the views of a store."""

    def __init__(
        self,
        workspace: Workspace,
        store: Store,
        pipelines: Callable[[], Mapping[str, RunningStream]],
        catalog: Callable[[], Catalog],
    ) -> None:
        self._workspace = workspace
        self._store = store
        self._pipelines = pipelines
        self._catalog = catalog

    def describe(self, view: str) -> list[VersionStatus]:
        """The versions of a view, newest first."""
        refuse_logical(self._catalog().logical, view, "versions")
        with self._store.snapshot() as snapshot:
            versions = snapshot.versions()
            streams = _find(view, versions).view.streams
            pipelines = [pipeline for pipeline in map(self._pipelines().get, streams) if pipeline]
            errors = [
                error for pipeline in pipelines if pipeline.batch for error in list(pipeline.batch.errors.items())
            ]
            own = {number: error for (name, number), error in errors if name == view}
            lanes = join_lanes(pipeline.lanes(versions) for pipeline in pipelines)
            return describe_versions(snapshot, view, own, lanes)

    def describe_audits(self, view: str) -> list[AuditStatus]:
        """What came of comparing the two layers of a view, newest first."""
        refuse_logical(self._catalog().logical, view, "audits")
        with self._store.snapshot() as snapshot:
            _find(view, snapshot.versions())
            return [describe_audit(audit) for audit in snapshot.audits(view)]

    def costs(self) -> Costs:
        """What edits would take now."""
        versions = self._store.versions()
        batches = [pipeline.batch for pipeline in self._pipelines().values() if pipeline.batch]
        rates = [batch.rate for batch in batches if batch.rate is not None]
        beginnings_s = [batch.beginning_s for batch in batches if batch.beginning_s is not None]
        builds = sum(version.state in ("registered", "building") and not version.stalled for version in versions)
        return Costs(
            self._size,
            min(rates, default=None),
            max(beginnings_s, default=None),
            load_now(builds),
            lambda view, ms: choose_way(versions, view, ms),
        )

    def needs_build(self, view: View, patience_ms: Mapping[str, int]) -> bool:
        """Whether no version has the rows of a view as it is wanted."""
        way = choose_way(self._store.versions(), view, patience_ms)
        return way is not None and way.kind == "build"

    def plan_rollback(self, catalog: Catalog, view: str, number: int | None) -> RollbackPlan:
        """What going back to a version, by default the one before, takes."""
        versions = self._store.versions()
        _find(view, versions)
        return plan_rollback(versions, catalog, view, number, self.costs())

    def start_refresh(self, view: str, *, full: bool = False, tables: str | None = None) -> RefreshStatus:
        """Have the batch layer take over what the speed layer has; in full: build the view anew beside it.

        A view over a table is computed again from its rows and compared; in full: rebuilt from them.

        With `tables` "now" all events so far are joined to tables as they are now, with "recorded" as they were, with
        "missing" as before, but keys that were missing are looked for in the tables as they are now.
        """
        refuse_logical(self._catalog().logical, view, "rows to refresh")
        versions = self._store.versions()
        version = _find(view, versions)
        _check_tables(version.view, full, tables)
        running = self._pipelines()
        if not all(stream in running for stream in version.view.streams):
            raise unknown("view", view, ())  # dropped with its stream, just now
        pipelines = {stream: running[stream] for stream in version.view.streams}
        batches = [pipeline.batch for pipeline in pipelines.values() if pipeline.batch]
        if len(batches) < len(pipelines):
            raise StartingError(
                f"view '{view}' cannot be refreshed yet: Spark is starting", fix="retry in some seconds"
            )
        if full:
            at = {stream: point_of(pipeline.table.state) for stream, pipeline in pipelines.items()}
            pinned = pin_tables(version.view, versions, self._table_versions())
            if tables is not None:
                pinned = self._pin(version.view, pinned, at, tables)
            version = self._store.register(version.view, version.fingerprint, version.patience_ms, at, pinned)
        elif version.view.over is not None and version.stalled:
            raise NotReadyError(f"view '{view}' is stalled and cannot be compared: {version.stalled}", fix=RETRIED)
        elif not version.serving:
            raise NotReadyError(f"view '{view}' is being built", fix="there is nothing to refresh yet")
        else:
            for batch in batches if version.view.over is None else batches[:1]:
                batch.refresh(view)
        over = version.view.over.table if version.view.over else None
        return RefreshStatus(view, version.number, version.total("horizon"), version.total("applied_to"), over)

    def _pin(self, view: View, pinned: Pinned, at: Mapping[str, Point], tables: str) -> Pinned:
        """Which versions of tables the events so far are joined to, as a refresh asks for."""
        if tables == "recorded":
            return Pinned(pinned.versions)
        present, logs = self._table_versions(), view.relation.logs if view.relation else ()
        versions = tuple((log, present.get(log, 0)) for log in logs)
        until = tuple((stream, point.commit) for stream, point in at.items())
        return Pinned(versions, until) if tables == "now" else replace(pinned, fill=versions, fill_until=until)

    def _table_versions(self) -> dict[str, int]:
        """The present versions of tables, by the streams that hold their changes."""
        lakes = {name: pipeline.lake for name, pipeline in self._pipelines().items()}
        return {name: lake.next_commit for name, lake in lakes.items() if lake is not None}

    def _size(self, stream: str) -> Size | None:
        pipeline = self._pipelines().get(stream)
        if pipeline is None:
            return unread_size(self._workspace.lake(stream))
        return lake_size(pipeline.table) if pipeline.lake else None


def _check_tables(view: View, full: bool, tables: str | None) -> None:
    if tables is None:
        return
    if tables not in ("now", "recorded", "missing"):
        raise QuestionError("'tables' of a refresh", found=repr(tables)[:40], expected="now, recorded or missing")
    if not full:
        raise QuestionError(
            f"view '{view.name}': 'tables' is for a full refresh, which joins all events again", fix="add --full"
        )
    if not (view.relation and view.relation.tables):
        raise QuestionError(f"view '{view.name}' joins no table", fix="refresh it without 'tables'")


def _find(view: str, versions: Iterable[Version]) -> Version:
    """The version that serves, or that will."""
    live = [version for version in versions if version.live]
    own = [version for version in live if version.view.name == view]
    if not own:
        raise unknown("view", view, {version.view.name for version in live})
    return max(own, key=lambda version: version.serving)
