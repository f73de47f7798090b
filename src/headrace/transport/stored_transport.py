"""Reads what a transport has on disk, also while a process writes it; `open_transport.py` opens it to write."""

from __future__ import annotations

from pathlib import Path

from headrace.define.model import Stream
from headrace.disk import read_format, refuse_newer
from headrace.transport.journal.journal_records import check_format as check_journal_format
from headrace.transport.journal.journal_records import read_durable
from headrace.transport.position import Position
from headrace.workspace.settings import Workspace

FORMAT = 1  # the partitions, the producer and the requests


def check_kafka_format(folder: Path) -> int:
    """The format version of a folder. Raises NewerFormatError if this code does not read it."""
    version = read_format(folder)
    refuse_newer(f"Kafka folder '{folder}'", version, FORMAT)
    return version


def check_transport(workspace: Workspace, stream: Stream) -> int:
    """The format version of a transport. Raises NewerFormatError if this code does not read it."""
    if stream.source is None:
        return check_journal_format(workspace.journal(stream.name))
    return check_kafka_format(workspace.kafka(stream.name))


def backlog_bytes(workspace: Workspace, stream: Stream, lake_end: Position) -> int | None:
    """The number of durable bytes that the lake does not have, also while a process writes; None: not known."""
    if stream.source is not None:
        return None  # the broker is not asked
    return max(0, (read_durable(workspace.journal(stream.name)) or 0) - lake_end.offset())
