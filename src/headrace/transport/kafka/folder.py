"""The folder of a stream whose events are in Kafka: its format version."""

from __future__ import annotations

from pathlib import Path

from headrace.disk import read_format, refuse_newer

FORMAT = 1  # the partitions, the producer and the requests


def check_format(folder: Path) -> int:
    """The format version of a folder. Raises NewerFormatError if this code does not read it."""
    version = read_format(folder)
    refuse_newer(f"Kafka folder '{folder}'", version, FORMAT)
    return version
