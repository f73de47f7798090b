"""Opens the transport of a stream. All others know a transport by its protocol; here is which it is."""

from __future__ import annotations

from collections.abc import Callable

from headrace.transport.base import Transport
from headrace.transport.journal.journal import Journal, check_format
from headrace.transport.journal.record import read_durable
from headrace.transport.position import Position
from headrace.workspace.settings import Workspace


def open_transport(
    workspace: Workspace, stream: str, *, fence: int, lake_end: Position, still_mine: Callable[[], None]
) -> Transport:
    """The transport, to write: one process at a time, the one whose lease `still_mine` checks."""
    return Journal(workspace.journal(stream), fence=fence, lake_end=lake_end, still_mine=still_mine)


def check_transport(workspace: Workspace, stream: str) -> int:
    """Its format version. Raises NewerFormatError if this code does not read it."""
    return check_format(workspace.journal(stream))


def backlog_bytes(workspace: Workspace, stream: str, lake_end: Position) -> int:
    """How many durable bytes the lake does not have, beside a process that writes or without one."""
    return max(0, (read_durable(workspace.journal(stream)) or 0) - lake_end.offset())
