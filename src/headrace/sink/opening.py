"""The writer of a sink, by its connector. The libraries of a connector are imported when it is used."""

from __future__ import annotations

from pathlib import Path

from headrace.define.model import Sink
from headrace.sink.base import DestinationError, Writer


def open_writer(sink: Sink, root: Path) -> Writer:
    """A writer for the destination of a sink; relative paths are below `root`, the folder of the workspace."""
    match sink.connector:
        case "files":
            from headrace.sink.files import FilesWriter  # loads Parquet, which other sinks do not need

            return FilesWriter(sink, root / (sink.get("path") or ""))
        case "http":
            from headrace.sink.http import HttpWriter  # only this connector needs it

            return HttpWriter(sink)
        case other:
            raise DestinationError(f"sink '{sink.name}': the connector '{other}' is not available yet")
