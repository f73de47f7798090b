"""The state of a workspace without a running server: streams, views, tables, sinks and alerts, from its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.api.local_folder import DOWN, WorkspaceFolder
from headrace.define.definitions import graph_of
from headrace.define.model import Stream
from headrace.deliver.sinks.sink_progress import read_progress
from headrace.errors import CorruptionError
from headrace.format import iso_us
from headrace.lake.delta_table import lake_figures
from headrace.lake.lateness_record import read_lateness
from headrace.lazy import later
from headrace.serve.freshness import Fresh
from headrace.server.composed_status import describe_graph, describe_logical, describe_tables
from headrace.server.describe_stream import describe_damaged, describe_definition, describe_derived
from headrace.server.describe_view import (
    LayerCounts,
    describe_audit,
    describe_view,
    join_lanes,
    lanes_by_definition,
    read_layers,
    warnings,
)
from headrace.server.lateness_status import describe_lateness
from headrace.server.running_stream import Lanes
from headrace.server.sink_status import describe_stopped
from headrace.server.status import (
    AuditStatus,
    GraphStatus,
    LogicalStatus,
    SinkStatus,
    StreamStatus,
    TableStatus,
    VersionStatus,
    ViewStatus,
    WorkspaceStatus,
)
from headrace.store.version import Version
from headrace.transport.position import START
from headrace.transport.stored_transport import backlog_bytes, check_transport

if TYPE_CHECKING:
    from headrace.server import describe_versions
else:  # loaded by their first use
    describe_versions = later("headrace.server.describe_versions")


class LocalStatus:
    """The methods of a workspace that describe it."""

    def __init__(self, folder: WorkspaceFolder) -> None:
        self._folder = folder

    def describe_streams(self) -> list[StreamStatus]:
        """The streams, with numbers of the lake and the journal."""
        catalog = self._folder.catalog
        return [
            replace(self._describe_stream(stream), table=name in catalog.tables)
            for name, stream in sorted(catalog.streams.items())
        ]

    def describe_views(self) -> list[ViewStatus]:
        """The views with their serving versions."""
        catalog, versions, layers = self._folder.catalog, self._folder.stored_versions(), self._layers()
        lanes = self._lanes(versions)
        statuses = []
        for name, view in sorted(catalog.views.items()):
            try:
                lakes = [self._folder.lake(catalog.streams[stream]) for stream in view.streams]
            except CorruptionError as error:
                statuses.append(describe_view(view, versions, None, Fresh(None, str(error)), None, layers.get(name)))
                continue
            commits = sum(lake.state.next_commit for lake in lakes if lake)
            statuses.append(
                describe_view(view, versions, commits, Fresh(None, DOWN), None, layers.get(name), lanes=lanes)
            )
        return [replace(status, table=status.name in catalog.tables) for status in statuses]

    def describe_tables(self) -> list[TableStatus]:
        """The tables with their serving versions."""
        return describe_tables(self._folder.catalog.tables, self.describe_streams(), self.describe_views())

    def describe_logical_views(self) -> list[LogicalStatus]:
        """The logical views."""
        logical = self._folder.catalog.logical
        return describe_logical(logical, self.describe_views()) if logical else []

    def list_versions(self, view: str) -> list[VersionStatus]:
        """The versions of a view as the server left them, newest first."""
        with self._folder.store_of(view).snapshot() as snapshot:
            return describe_versions.describe_versions(
                snapshot, view, errors={}, lanes=self._lanes(snapshot.versions())
            )

    def list_audits(self, view: str) -> list[AuditStatus]:
        """How the two layers of a view compared, newest first."""
        with self._folder.store_of(view).snapshot() as snapshot:
            return [describe_audit(audit) for audit in snapshot.audits(view)]

    def describe_sinks(self) -> list[SinkStatus]:
        """The sinks as the server left them."""
        store = self._folder.store
        known = read_progress(store) if store is not None else {}
        return [describe_stopped(sink, known.get(name)) for name, sink in sorted(self._folder.catalog.sinks.items())]

    def compose_graph(self) -> GraphStatus:
        """What reads what; before the first apply, of the definitions folder."""
        applied = self._folder.catalog
        catalog = applied if len(applied) else self._folder.declared()
        return describe_graph(graph_of(catalog), self.describe_workspace(), self.describe_tables())

    def describe_workspace(self) -> WorkspaceStatus:
        """State of the workspace, streams, views and sinks."""
        workspace = self._folder.workspace
        return WorkspaceStatus(
            workspace=workspace.name,
            folder=str(workspace.folder),
            url=None,
            pid=None,
            state="stopped",
            warnings=warnings(self._folder.stored_versions()),
            heartbeat_ms=None,
            memory_mb=None,
            streams=tuple(self.describe_streams()),
            views=tuple(self.describe_views()),
            sinks=tuple(self.describe_sinks()),
            logical=tuple(self.describe_logical_views()),
        )

    def _lanes(self, versions: Sequence[Version]) -> Lanes:
        """The lanes that a server would use."""
        streams, settings = self._folder.catalog.base_streams.values(), self._folder.workspace.settings
        return join_lanes(lanes_by_definition(settings, stream, versions) for stream in streams)

    def _layers(self) -> dict[str, LayerCounts]:
        store = self._folder.store
        if store is None:
            return {}
        with store.snapshot() as snapshot:
            return read_layers(snapshot, snapshot.versions())

    def _describe_stream(self, stream: Stream) -> StreamStatus:
        if stream.relation is not None:
            return describe_derived(stream)
        workspace = self._folder.workspace
        try:
            check_transport(workspace, stream)
            lake = self._folder.lake(stream)
        except CorruptionError as error:
            return describe_damaged(stream, str(error))
        figures = lake_figures(lake)
        return StreamStatus(
            **vars(describe_definition(stream)),
            events=lake.rows() if lake else 0,
            dead_letters=lake.rows(dead=True) if lake else 0,
            commits=lake.state.next_commit if lake else 0,
            backlog_bytes=backlog_bytes(workspace, stream, lake.state.position if lake else START),
            newest_event=iso_us(lake.state.newest_us) if lake else None,
            lateness=describe_lateness(stream, read_lateness(lake, stream)) if lake else None,
            freshness_ms=None,
            events_per_second=0,
            commit_ms=None,
            maintain_ms=None,
            lake_files=figures.files,
            lake_bytes=figures.bytes,
            small_files=figures.small,
            last_upkeep=None,
            upkeep_error=None,
            error=None,
            duplicates=lake.duplicates if lake else 0,
        )
