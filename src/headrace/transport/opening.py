"""Opens the transport of a stream. All others know a transport by its protocol; here is which it is."""

from __future__ import annotations

from collections.abc import Callable

from headrace.define.kafka import read_source
from headrace.define.model import Stream
from headrace.transport.base import Transport
from headrace.transport.journal.journal import Journal
from headrace.transport.journal.journal import check_format as check_journal_format
from headrace.transport.journal.record import read_durable
from headrace.transport.kafka.folder import check_format as check_kafka_format
from headrace.transport.position import Position
from headrace.workspace.settings import Workspace


def open_transport(
    workspace: Workspace, stream: Stream, *, fence: int, lake_end: Position, still_mine: Callable[[], None]
) -> Transport:
    """The transport, to write: one process at a time, the one whose lease `still_mine` checks."""
    if stream.source is None:
        return Journal(workspace.journal(stream.name), fence=fence, lake_end=lake_end, still_mine=still_mine)
    from headrace.transport.kafka.transport import KafkaTransport  # loads the client, which few streams need

    return KafkaTransport(
        workspace.kafka(stream.name),
        stream.name,
        read_source(stream.source, workspace.kafka_properties),
        stream.format,
        fence=fence,
        lake_end=lake_end,
        still_mine=still_mine,
    )


def check_transport(workspace: Workspace, stream: Stream) -> int:
    """Its format version. Raises NewerFormatError if this code does not read it."""
    if stream.source is None:
        return check_journal_format(workspace.journal(stream.name))
    return check_kafka_format(workspace.kafka(stream.name))


def backlog_bytes(workspace: Workspace, stream: Stream, lake_end: Position) -> int | None:
    """How many durable bytes the lake does not have, beside a process that writes or without one; None: not known."""
    if stream.source is not None:
        return None  # the broker is not asked
    return max(0, (read_durable(workspace.journal(stream.name)) or 0) - lake_end.offset())
