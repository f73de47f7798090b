"""Sends events, tables and files to a workspace. A module of its own, since it imports Arrow, which takes time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from headrace.client.verbs import Backend
from headrace.define.paths import parse_path
from headrace.errors import IngestError
from headrace.ingest.files import SourceFile, StreamShape, find_files
from headrace.ingest.formats.layout import ANY, Format, Layout
from headrace.ingest.receiver import IngestReply
from headrace.ingest.sending import Sending, SendProgress, SendReply, send_all
from headrace.ingest.tabular import as_table, send_table
from headrace.server.state import StreamDefinition

SENDABLE = "an event (a mapping), many of them, a pandas DataFrame, an Arrow table, bytes, or a Path"


class Sender:
    """Sends to a workspace whose lease or server allows writing."""

    def __init__(self, workspace: Backend) -> None:
        self._workspace = workspace

    def events(self, stream: str, events: Any, key: str | None) -> IngestReply:
        """One event, many, a table, or bytes."""
        if isinstance(events, bytes):
            return self._workspace.ingest(stream, events, layout=ANY, key=key, keep_bad=False).result()
        table = as_table(events)
        if table is not None and table.num_rows:
            return send_table(table, partial(self._lines, stream), key)
        body = orjson.dumps([] if table is not None else _check_events(events), default=str)
        return self._workspace.ingest(stream, body, layout=Layout(Format.JSON), key=key, keep_bad=False).result()

    def _lines(self, stream: str, lines: bytes, key: str | None) -> Future[IngestReply]:
        return self._workspace.ingest(stream, lines, layout=Layout(Format.NDJSON), key=key, keep_bad=False)

    def files(
        self, stream: str, paths: Iterable[Path], progress: SendProgress | None, layout: Layout, *, again: bool
    ) -> SendReply:
        """Files and folders; of each file, only what was not sent before."""
        files = find_files(paths)
        sending = self.sending(stream, progress, again=again)
        return send_all(sending, (SourceFile(file, sending.declared, layout) for file in files))

    def sending(self, stream: str, progress: SendProgress | None, *, again: bool) -> Sending:
        """Send several files step by step; events that cannot be parsed become dead letters."""
        return Sending(self._workspace, _shape(self._workspace.stream(stream)), progress, again=again)


def _shape(stream: StreamDefinition) -> StreamShape:
    places = [((field.name,) if field.path is None else parse_path(field.path), field) for field in stream.fields]
    types = {
        str(steps[0]): field.type
        for steps, field in places
        if len(steps) == 1 and not field.computed and not field.record
    }
    return StreamShape(stream.name, stream.format, types)


def _check_events(events: Any) -> Any:
    """One event, or a list of them; anything else is refused."""
    if isinstance(events, Mapping):
        return events
    kind = f"a {type(events).__name__}"
    if not isinstance(events, str) and isinstance(events, Iterable):
        many = list(events)
        wrong = next((n for n, event in enumerate(many) if not isinstance(event, Mapping)), None)
        if wrong is None:
            return many
        kind += f" whose item {wrong} is a {type(many[wrong]).__name__}"
    fix = "a file is sent by its Path, JSON text as bytes" if isinstance(events, str) else None
    raise IngestError("this value cannot be sent", found=kind, expected=SENDABLE, fix=fix)
