"""What a transport has on disk, beside a process that writes it or without one; `opening.py` opens it to write."""

from __future__ import annotations

from headrace.define.model import Stream
from headrace.transport.journal.record import check_format as check_journal_format
from headrace.transport.journal.record import read_durable
from headrace.transport.kafka.folder import check_format as check_kafka_format
from headrace.transport.position import Position
from headrace.workspace.settings import Workspace


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
