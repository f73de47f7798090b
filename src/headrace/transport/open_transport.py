"""Opens the transport of a stream. All others know a transport by its protocol; here is which it is."""

from __future__ import annotations

from collections.abc import Callable

from headrace.define.kafka_source import read_source
from headrace.define.model import Stream
from headrace.transport.journal.journal import Journal
from headrace.transport.position import Position
from headrace.transport.transport_contract import Transport
from headrace.workspace.settings import Workspace


def open_transport(
    workspace: Workspace, stream: Stream, *, fence: int, lake_end: Position, still_mine: Callable[[], None]
) -> Transport:
    """The transport, to write: one process at a time, the one whose lease `still_mine` checks."""
    if stream.source is None:
        return Journal(workspace.journal(stream.name), fence=fence, lake_end=lake_end, still_mine=still_mine)
    from headrace.transport.kafka.kafka_transport import KafkaTransport  # loads the client, which few streams need

    return KafkaTransport(
        workspace.kafka(stream.name),
        stream.name,
        read_source(stream.source, workspace.kafka_properties),
        stream.format,
        fence=fence,
        lake_end=lake_end,
        still_mine=still_mine,
    )
