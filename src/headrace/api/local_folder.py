"""A workspace on disk, as its last server left it: the applied definitions, the store and the lakes.

The store, the lakes and the language of definitions are loaded when they are used: no command needs them all.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.define.definitions import Catalog
from headrace.define.model import Stream
from headrace.errors import CorruptionError, NotFoundError, NotReadyError, no_own_log, not_a_stream, not_a_view, unknown
from headrace.lazy import later
from headrace.server.composed_status import refuse_logical
from headrace.workspace.applied_catalog import read_running
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from deltalake import exceptions as delta_errors

    from headrace.define import catalog
    from headrace.lake import delta_table
    from headrace.lake.delta_table import LakeTable
    from headrace.store import open_to_read
    from headrace.store.store_contract import StoreReader
    from headrace.store.version import Version
else:  # loaded by their first use
    open_to_read = later("headrace.store.open_to_read")
    catalog = later("headrace.define.catalog")
    delta_errors = later("deltalake.exceptions")
    delta_table = later("headrace.lake.delta_table")

DOWN = "the server is not running"
START_IT = "start `headrace up`, then try again"


class WorkspaceFolder:
    """Finds streams, views, the store and lakes of a workspace by name; what does not exist is an error."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.catalog = read_running(workspace.catalog_file)
        self._damage: CorruptionError | None = None  # of the store

    @cached_property
    def store(self) -> StoreReader | None:
        """The store, opened on first use: a sender must not keep a server that starts from opening it."""
        try:
            return open_to_read.open_to_read(self.workspace)
        except CorruptionError as error:
            self._damage = error
            return None

    def declared(self) -> Catalog:
        """The definitions folder, which may not be applied."""
        return catalog.load(self.workspace.definitions)

    def reload(self) -> None:
        """Read the applied definitions again."""
        self.catalog = read_running(self.workspace.catalog_file)

    def close(self) -> None:
        """Close the store if it was opened."""
        store = self.__dict__.get("store")
        if store is not None:
            store.close()

    def store_of(self, view: str) -> StoreReader:
        """The store, if it can answer for a view."""
        refuse_logical(self.catalog.logical, view, "rows, versions or events of its own")
        if view not in self.catalog.views:
            raise self.unknown_view(view)
        return self.need_store(f"view '{view}' has never been computed")

    def need_store(self, otherwise: str) -> StoreReader:
        """The store; without one, an error with this message."""
        store = self.store
        if self._damage is not None:
            raise self._damage
        if store is None:
            raise NotReadyError(otherwise, fix="run `headrace up` first")
        return store

    def stored_versions(self) -> list[Version]:
        """All versions in the store."""
        return [] if self.store is None else self.store.versions()

    def unknown_view(self, name: str) -> NotFoundError:
        """The error for a view that is not applied."""
        target = self.declared()
        if name in {*target.views, *target.logical}:
            return NotFoundError(f"view '{name}' is declared but not applied yet", fix="`headrace up` applies it")
        if name in self.catalog.streams:
            return not_a_view(name)
        return unknown("view", name, [*self.catalog.views, *self.catalog.logical])

    def find_stream(self, name: str) -> Stream:
        """A stream that is applied."""
        if name in self.catalog.streams:
            return self.catalog.streams[name]
        if name in self.declared().streams:
            fix = "it is defined but not applied: `headrace apply`"
            raise NotFoundError(f"stream '{name}' does not exist", fix=fix)
        known = name in self.catalog.views or name in self.catalog.logical
        raise not_a_stream(name) if known else unknown("stream", name, self.catalog.streams)

    def lake(self, stream: Stream) -> LakeTable | None:
        """The lake of a base stream; None before its first commit."""
        with suppress(delta_errors.TableNotFoundError):
            return delta_table.LakeTable(self.workspace.lake(stream.name), stream, fence=None)
        return None

    def base_and_lake(self, name: str) -> tuple[Stream, LakeTable | None]:
        """A stream that has a log of its own, and its lake."""
        stream = self.find_stream(name)
        if stream.relation is not None:
            raise no_own_log(name, stream.relation.streams)
        return stream, self.lake(stream)
