"""The plan of a workspace without a running server, and how it is applied."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache

from headrace.api.local_folder import WorkspaceFolder
from headrace.errors import CorruptionError
from headrace.plan.cost import Costs, Size, lake_size, unread_size
from headrace.plan.differences import checked_plan, compare
from headrace.plan.edits import choose_way
from headrace.plan.planned_change import Plan
from headrace.workspace.applied_catalog import write_running


class LocalPlanning:
    """Compares the definitions folder with what is applied."""

    def __init__(self, folder: WorkspaceFolder) -> None:
        self._folder = folder

    def compare(self) -> Plan:
        """The changes from the last applied definitions to the definitions folder."""
        return compare(self._folder.catalog, self._folder.declared(), self._costs())

    def take_over(self, expect: str | None, hold: Callable[[], object]) -> Plan:
        """Apply the definitions folder, once `hold` has made this process the writer."""
        catalog = self._folder.declared()
        plan = checked_plan(self._folder.catalog, catalog, expect, self._costs())
        hold()
        write_running(self._folder.workspace.catalog_file, catalog)
        self._folder.catalog = catalog
        return plan

    def _costs(self) -> Costs:
        versions = cache(self._folder.stored_versions)  # the store is opened only for a view that has to be built
        return Costs(self._size, way_of=lambda view, patience_ms: choose_way(versions(), view, patience_ms))

    def _size(self, stream: str) -> Size | None:
        """How much a build of a view over a stream would read."""
        if stream not in self._folder.catalog.base_streams:
            return unread_size(self._folder.workspace.lake(stream))
        with suppress(CorruptionError):
            table = self._folder.lake(self._folder.catalog.streams[stream])
            return lake_size(table) if table else Size(0, 0)
        return None
