"""Converts every format to the lines that a transport stores, in pieces that fit in memory."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.errors import IngestError
from headrace.ingest.formats.byte_source import LINGER_S, ByteSource
from headrace.ingest.formats.format_detection import FileLayout, Format
from headrace.ingest.line_buffers import allocate, end_of_lines
from headrace.lazy import later

if TYPE_CHECKING:
    from headrace.ingest.formats import columnar_lines, csv_lines, json_array
else:  # they load numpy and Arrow, which lines of JSON do not need
    columnar_lines = later("headrace.ingest.formats.columnar_lines")
    csv_lines = later("headrace.ingest.formats.csv_lines")
    json_array = later("headrace.ingest.formats.json_array")

PIECE_BYTES = 1 << 20
LONGEST_EVENT_BYTES = 64 << 20
_MARK = b"\xef\xbb\xbf"  # some programs write it at the start of UTF-8


def read_lines(
    source: ByteSource, layout: FileLayout, types: Mapping[str, str], size: int = PIECE_BYTES
) -> Iterator[bytes]:
    """The events of a source, one line each, in pieces of about `size` bytes."""
    match layout.format:
        case Format.CSV:
            return csv_lines.csv_lines(source, types, delimiter=layout.delimiter, names=layout.fields)
        case Format.PARQUET:
            return _parquet(source)
        case Format.JSON:
            return _json(source)
        case _:
            return map(bytes, line_blocks(source, size))


def _json(source: ByteSource) -> Iterator[bytes]:
    """An array, or else one event that may take several lines."""
    if source.look(3) == _MARK:
        source.skip(3)
    if source.look().lstrip()[:1] == b"[":
        yield from json_array.array_lines(source)
        return
    event = source.read_at_most(LONGEST_EVENT_BYTES).strip()
    if source.look(1):
        raise _too_long()
    if event:
        yield event.translate(bytes.maketrans(b"\r\n", b"  ")) + b"\n"


def _parquet(source: ByteSource) -> Iterator[bytes]:
    """Parquet is read from its end: input that is not seekable is copied to a temporary file first."""
    if (seekable := source.seekable_file()) is not None:
        yield from columnar_lines.parquet_lines(seekable)
        return
    with tempfile.TemporaryFile(prefix="headrace-") as file:
        while block := source.read(PIECE_BYTES):
            file.write(block)
        file.seek(0)
        yield from columnar_lines.parquet_lines(file)


def line_blocks(source: ByteSource, size: int) -> Iterator[bytes | memoryview]:
    """The lines of a source as they are, in blocks of about `size` bytes, without a copy. Those of a slow pipe are
    smaller, so that a line waits no longer than LINGER_S.
    """
    if source.look(3, linger_s=LINGER_S) == _MARK:
        source.skip(3)
    rest = b""  # of the line that the last block ended in
    while True:
        block = allocate(max(size, 2 * len(rest)))
        block[: len(rest)] = rest
        end = _fill(source, block, len(rest))
        if end == len(rest):
            break
        cut = end_of_lines(block[:end])
        if cut:
            yield block[:cut]
        rest = bytes(block[cut:end])
        if len(rest) > LONGEST_EVENT_BYTES:
            raise _too_long()
    if rest.strip():
        yield rest + b"\n"


def _fill(source: ByteSource, block: memoryview, start: int) -> int:
    """Read into a block from a place on; returns where that ends: `start` at the end of the source.

    Complete lines that arrived slowly do not wait for the rest of the block.
    """
    end, until = start, 0.0
    while end < len(block) and (count := source.readinto(block[end:])):
        until = until or time.monotonic() + LINGER_S
        end += count
        left_s = until - time.monotonic()
        if (left_s <= 0 or not source.is_ready(left_s)) and end_of_lines(block[:end]):
            break
    return end


def _too_long() -> IngestError:
    return IngestError("an event is too long", expected=f"at most {LONGEST_EVENT_BYTES >> 20} MB")
