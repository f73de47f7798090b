"""Writes to the journals of a workspace without a running server, under its lease."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headrace.api.local_folder import WorkspaceFolder
from headrace.define.model import Stream
from headrace.errors import HeadraceError
from headrace.ingest.intake import Ingest, refuse_derived
from headrace.server.leasing import take_lease
from headrace.transport.open_transport import open_transport
from headrace.transport.position import START
from headrace.workspace.lease import Lease, in_turn

OnWait = Callable[[HeadraceError, float], None]


class LocalWriter:
    """Holds the lease from the first write until `release`. `apply_creates` applies definitions that only create."""

    def __init__(self, folder: WorkspaceFolder, apply_creates: Callable[[], None]) -> None:
        self._folder = folder
        self._apply_creates = apply_creates
        self._lease: Lease | None = None
        self._ingests: dict[str, Ingest] = {}

    def hold(self, on_wait: OnWait | None) -> Lease:
        """Take the lease, after other processes that write without a server."""
        if self._lease is None:
            workspace = self._folder.workspace
            self._lease = in_turn(partial(take_lease, workspace, None), workspace.lease_file, on_wait)
            self._folder.reload()  # an earlier process may have changed it
        return self._lease

    def release(self) -> None:
        """Let other processes write; the next write takes the lease again."""
        for ingest in self._ingests.values():
            ingest.transport.close()
        self._ingests.clear()
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def find_stream(self, name: str) -> Stream:
        """A stream; before writing, definitions that only create are applied, as a server does when it starts."""
        is_new = self._lease is not None and name not in self._folder.catalog.streams
        if is_new and name in self._folder.declared().streams:
            self._apply_creates()
        return self._folder.find_stream(name)

    def intake(self, name: str, on_wait: OnWait | None) -> Ingest:
        """Return what takes in the events of a stream, opened on first use."""
        if name not in self._ingests:
            lease, stream = self.hold(on_wait), self.find_stream(name)
            refuse_derived(stream)
            table = self._folder.lake(stream)
            lake_end = table.state.position if table else START
            workspace = self._folder.workspace
            transport = open_transport(workspace, stream, fence=lease.fence, lake_end=lake_end, still_mine=lease.check)
            self._ingests[name] = Ingest(stream, transport, workspace.settings.max_body_mb << 20)
            self._ingests[name].lake_position = lake_end
        return self._ingests[name]
