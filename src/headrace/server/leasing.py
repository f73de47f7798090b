"""Takes the lease of a workspace."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.lazy import later
from headrace.workspace.lease import Lease
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from headrace.server import leftovers
else:  # loaded by their first use
    leftovers = later("headrace.server.leftovers")


def take_lease(workspace: Workspace, url: str | None) -> Lease:
    """The lease of a workspace. If its file was lost, the data tells which fences were used."""
    workspace.make_data()
    lease = Lease(
        workspace.lease_file,
        url=url,
        silent_after_s=workspace.settings.lease_s,
        floor=partial(_highest_fence, workspace.data),
    )
    try:
        workspace.write_format()
    except BaseException:
        lease.release()
        raise
    return lease


def _highest_fence(data: Path) -> int:
    return leftovers.highest_fence(data)
