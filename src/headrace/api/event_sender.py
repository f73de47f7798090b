"""Sends events, tables and files to a workspace."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from headrace.api.verbs import Backend
from headrace.errors import IngestError, UsageError
from headrace.ingest.formats.format_detection import ANY, FileLayout, Format, check_format
from headrace.ingest.input_files import SourceFile, StreamShape, find_files
from headrace.ingest.receiver import IngestReply
from headrace.ingest.sending import Sending, SendProgress, SendReply, send_all
from headrace.language.paths import Steps, parse_path
from headrace.language.token_cursor import parse_type
from headrace.lazy import later
from headrace.server.status import StreamDefinition
from headrace.types import Type

if TYPE_CHECKING:
    from concurrent.futures import Future

    from headrace.ingest import generator
    from headrace.ingest.formats import columnar_lines
    from headrace.ingest.generator import Generated
    from headrace.parse import iso_times
else:  # loaded by their first use
    iso_times = later("headrace.parse.iso_times")
    columnar_lines = later("headrace.ingest.formats.columnar_lines")
    generator = later("headrace.ingest.generator")

MOST_RATE = 10_000_000
DEFAULT_START = "2026-01-01T00:00:00Z"
SENDABLE = "an event (a mapping), many of them, a pandas DataFrame, an Arrow table, bytes, or a Path"


class EventSender:
    """Sends to a workspace whose lease or server allows writing."""

    def __init__(self, workspace: Backend) -> None:
        self._workspace = workspace

    def send_events(self, stream: str, events: Any, key: str | None) -> IngestReply:
        """One event, many, a table, or bytes."""
        if isinstance(events, bytes):
            return self._workspace.ingest(stream, events, layout=ANY, key=key, keep_bad=False).result()
        table = columnar_lines.as_table(events)
        if table is not None and table.num_rows:
            return columnar_lines.send_table(table, partial(self._lines, stream), key)
        body = orjson.dumps([] if table is not None else _check_events(events), default=str)
        return self._workspace.ingest(stream, body, layout=FileLayout(Format.JSON), key=key, keep_bad=False).result()

    def _lines(self, stream: str, lines: bytes, key: str | None) -> Future[IngestReply]:
        return self._workspace.ingest(stream, lines, layout=FileLayout(Format.NDJSON), key=key, keep_bad=False)

    def files(
        self, stream: str, paths: Iterable[Path], progress: SendProgress | None, layout: FileLayout, *, again: bool
    ) -> SendReply:
        """Files and folders; of each file, only what was not sent before."""
        files = find_files(paths)
        sending = self.sending(stream, progress, again=again, endless=False)
        return send_all(sending, (SourceFile(file, sending.declared, layout) for file in files))

    def sending(self, stream: str, progress: SendProgress | None, *, again: bool, endless: bool) -> Sending:
        """Send several files step by step; events that cannot be parsed become dead letters."""
        shape = _shape(self._workspace.stream(stream))
        return Sending(self._workspace, shape, progress, again=again, patient=endless, renames=endless)

    def generated(
        self,
        stream: str,
        events: int | None,
        seed: int,
        rate: float,
        rules: Mapping[str, str],
        start: str | None,
        stopping: threading.Event,
        *,
        at_once: bool,
    ) -> Generated:
        """Events made from the fields of a stream; `start` "now" is for times of the clock."""
        definition = self._workspace.stream(stream)
        is_text = definition.format == Format.TEXT
        check_format(stream, definition.format, Format.TEXT if is_text else Format.NDJSON)
        if not 0 < rate <= MOST_RATE:
            raise UsageError(f"the rate {rate:g} is not possible", expected=f"events per second, up to {MOST_RATE:,}")
        if events is not None and events < 1:
            raise UsageError(f"{events:,} events cannot be generated", expected="1 or more")
        if not 0 <= seed < 1 << 63:
            raise UsageError(f"the seed {seed} is not possible", expected="a whole number from 0 on")
        fields = generator.make_fields(stream, _places(definition), rules)
        recipe = generator.Recipe(seed, fields, float(rate), _start_us(start), is_text)
        return generator.Generated(recipe, events, stopping, at_once=at_once)


def _shape(stream: StreamDefinition) -> StreamShape:
    places = [((field.name,) if field.path is None else parse_path(field.path), field) for field in stream.fields]
    types = {
        str(steps[0]): field.type
        for steps, field in places
        if len(steps) == 1 and not field.computed and not field.record
    }
    return StreamShape(stream.name, stream.format, types)


def _places(stream: StreamDefinition) -> list[tuple[str, Steps, Type, bool]]:
    """The fields that an event has to contain: neither computed, nor of a record of Kafka, nor ours."""
    fields = [field for field in stream.fields if not field.computed and not field.record]
    return [
        (field.name, parse_path(field.path) if field.path else (field.name,), parse_type(field.type), field.nullable)
        for field in fields
        if not field.name.startswith("_")
    ]


def _start_us(start: str | None) -> int | None:
    if start == "now":
        return None
    time = iso_times.read_timestamp(start or DEFAULT_START)
    if time is None:
        raise UsageError(f"'{start}' is not a time", expected="such as 2026-01-01T00:00:00Z, or now")
    return int((time - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))


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
