"""The body of a request as the lines to store, how many events they are, and why the others are refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from headrace.define.model import Stream
from headrace.errors import IngestError, TooLargeError
from headrace.ingest.formats.byte_source import LOOK_BYTES, ByteSource
from headrace.ingest.formats.format_detection import FileLayout, Format, check_format, format_of
from headrace.ingest.formats.json_array import compact_array_lines
from headrace.ingest.formats.stored_lines import PIECE_BYTES, read_lines
from headrace.ingest.line_buffers import STEP_BYTES, Lines
from headrace.parse.event_parser import Parser
from headrace.parse.frames import NEWLINE, as_lines, frame

_SPACE = ord(" ")  # no blank line begins with a byte above it


def count_events(stream_format: str, lines: Lines) -> int:
    """The number of lines that are not blank, as `frame` finds them."""
    count = _count_solid_lines(lines)
    return len(frame(stream_format, lines)) if count is None else count


def _count_solid_lines(lines: Lines) -> int | None:
    """The number of lines, if none of them can be blank: each begins with more than a space. Else None."""
    data = np.frombuffer(lines, dtype=np.uint8)
    if not len(data) or data[0] <= _SPACE:
        return None
    count = int(data[-1] != NEWLINE)
    for start in range(0, len(data), STEP_BYTES):
        step = data[start : start + STEP_BYTES]
        ends = step == NEWLINE
        count += int(np.count_nonzero(ends))
        following = data[start + 1 : start + STEP_BYTES + 1]
        if (ends[: len(following)] & (following <= _SPACE)).any():
            return None
    return count


MOST_REASONS = 1000  # in one reply; the others have only their index
MOST_REFUSED = 100_000  # with more, the request is refused: the reply would be too long to read


@dataclass
class BodyEvents:
    """The events of a body: those to store, and those refused."""

    payload: Lines = b""
    accepted: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)


class BodyParser:
    """Reads bodies for one stream, piece by piece, so that a large one needs little more than its own memory."""

    def __init__(self, stream: Stream, now_us: Callable[[], int], most_bytes: int) -> None:
        self._stream = stream
        self._types = {key: str(of) for key, of in stream.key_types().items()}
        self._now_us = now_us
        self._most_bytes = most_bytes
        self._idle = [Parser(stream)]  # a parser serves one thread at a time
        self._borrowing = threading.Lock()

    def parse(self, body: Lines, layout: FileLayout, *, keep_bad: bool) -> BodyEvents:
        """Read all events. With `keep_bad` every line is stored unparsed; bad ones become dead letters."""
        format = self._format(body, layout)
        if _is_blank(body):
            raise IngestError(f"stream '{self._stream.name}': the body is empty", expected=_EXPECTED[format])
        if keep_bad and format in _LINES:
            return BodyEvents(_ended(body), count_events(self._stream.format, body))
        body, events = bytes(body), BodyEvents()
        if format is Format.JSON and not keep_bad and (lines := compact_array_lines(body)):
            events.payload = self._read(lines, events)
            if not events.refused:
                return events
            events = BodyEvents()
        read = self._count if keep_bad else self._read
        pieces = [read(piece, events) for piece in self._pieces(body, replace(layout, format=format))]
        events.payload = _ended(body) if format in _LINES and not events.refused else b"".join(pieces)
        return events

    def _format(self, body: Lines, layout: FileLayout) -> Format:
        format = layout.format or format_of("", bytes(body[:LOOK_BYTES]), self._stream.format, self._types)
        check_format(self._stream.name, self._stream.format, format)
        return format

    def _pieces(self, body: bytes, layout: FileLayout) -> Iterator[Lines]:
        if layout.format in _LINES:
            yield from _cut_lines(body)
            return
        size = 0
        for piece in read_lines(ByteSource(body), layout, self._types):
            size += len(piece)
            if size > self._most_bytes:
                raise TooLargeError(
                    "the body is too large",
                    found=f"more than {self._most_bytes:,} bytes when its events are written as JSON",
                    expected=f"at most {self._most_bytes:,} bytes (setting max_body_mb)",
                    fix="send it in parts; nothing was stored",
                )
            yield piece

    def _count(self, piece: Lines, events: BodyEvents) -> Lines:
        events.accepted += count_events(self._stream.format, piece)
        return piece

    def _read(self, piece: Lines, events: BodyEvents) -> Lines:
        """The good lines of a piece; the others are added to `refused`."""
        frames = frame(self._stream.format, piece)
        with self._parser() as parser:
            reasons = parser.parse(frames, self._now_us()).reasons
        before = events.accepted + len(events.refused)
        if reasons is None or reasons.null_count == len(reasons):
            events.accepted += len(frames)
            return piece
        bad = pc.indices_nonzero(reasons.is_valid()).to_pylist()
        if len(bad) + len(events.refused) > MOST_REFUSED:
            first = events.refused[0] if events.refused else {"index": bad[0] + before, "reason": reasons[bad[0]]}
            raise IngestError(
                f"stream '{self._stream.name}': more than {MOST_REFUSED:,} events of the request are refused",
                found=f"first at index {first['index']}: {first['reason']}",
                fix="nothing of this request was stored; with keep_bad=true bad events become dead letters",
            )
        limit = max(0, MOST_REASONS - len(events.refused))
        events.refused += [{"index": before + i, "reason": reasons[i].as_py()} for i in bad[:limit]]
        events.refused += [{"index": before + i, "reason": "refused; see the first reasons"} for i in bad[limit:]]
        keep = np.asarray(reasons.is_null().to_numpy(zero_copy_only=False), dtype=bool)
        events.accepted += int(keep.sum())
        return as_lines(frames.take(keep), self._stream.format)

    @contextmanager
    def _parser(self) -> Iterator[Parser]:
        with self._borrowing:
            parser = self._idle.pop() if self._idle else None
        parser = parser or Parser(self._stream)
        yield parser
        with self._borrowing:
            self._idle.append(parser)


_LINES = (Format.NDJSON, Format.TEXT)
_EXPECTED = {
    Format.NDJSON: "a JSON object per line",
    Format.JSON: "a JSON object, or an array of them",
    Format.CSV: "a row of names and rows of cells",
    Format.PARQUET: "a Parquet file",
    Format.TEXT: "lines of text",
}


def _is_blank(body: Lines) -> bool:
    """Return whether there is nothing but white space; the beginning of most bodies shows it."""
    return not bytes(body[:LOOK_BYTES]).strip() and not bytes(body).strip()


def _ended(body: Lines) -> Lines:
    """The body, with a line end after its last line."""
    return body if body[-1] == NEWLINE else b"".join((body, b"\n"))


def _cut_lines(body: bytes) -> Iterator[memoryview]:
    """Parts that end where a line does, without a copy."""
    view, start = memoryview(body), 0
    while start < len(body):
        end = len(body)
        if end - start > PIECE_BYTES:
            end = body.rfind(b"\n", start, start + PIECE_BYTES) + 1 or body.find(b"\n", start) + 1 or len(body)
        yield view[start:end]
        start = end
