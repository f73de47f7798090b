"""Every format as the lines that a transport stores, in pieces that fit in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping

from headrace.errors import IngestError
from headrace.ingest.formats.array import array_lines
from headrace.ingest.formats.csv import csv_lines
from headrace.ingest.formats.layout import Format, Layout
from headrace.ingest.formats.parquet import parquet_lines
from headrace.ingest.formats.source import ByteSource

PIECE_BYTES = 1 << 20
LONGEST_EVENT_BYTES = 64 << 20
_MARK = b"\xef\xbb\xbf"  # some programs write it at the start of UTF-8


def read_lines(
    source: ByteSource, layout: Layout, types: Mapping[str, str], size: int = PIECE_BYTES
) -> Iterator[bytes]:
    """The events of a source, one line each, in pieces of about `size` bytes."""
    match layout.format:
        case Format.CSV:
            return csv_lines(source, types, delimiter=layout.delimiter, names=layout.fields)
        case Format.PARQUET:
            return _parquet(source)
        case Format.JSON:
            return _json(source)
        case _:
            return _whole_lines(source, size)


def _json(source: ByteSource) -> Iterator[bytes]:
    """An array, or else one event that may take several lines."""
    if source.look(3) == _MARK:
        source.skip(3)
    if source.look().lstrip()[:1] == b"[":
        yield from array_lines(source)
        return
    event = source.read_at_most(LONGEST_EVENT_BYTES).strip()
    if source.look(1):
        raise _too_long()
    if event:
        yield event.translate(bytes.maketrans(b"\r\n", b"  ")) + b"\n"


def _parquet(source: ByteSource) -> Iterator[bytes]:
    """Parquet is read from its end: input that is not seekable is copied to a temporary file first."""
    if (seekable := source.seekable_file()) is not None:
        yield from parquet_lines(seekable)
        return
    with tempfile.TemporaryFile(prefix="headrace-") as file:
        while block := source.read(PIECE_BYTES):
            file.write(block)
        file.seek(0)
        yield from parquet_lines(file)


def _whole_lines(source: ByteSource, size: int) -> Iterator[bytes]:
    """Pieces that end where a line does."""
    if source.look(3) == _MARK:
        source.skip(3)
    rest: list[bytes] = []  # of a line that is longer than a piece
    rest_bytes = 0
    while block := source.read(size):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield b"".join((*rest, memoryview(block)[:cut]))
            rest, rest_bytes = [block[cut:]], len(block) - cut
        else:
            rest.append(block)
            rest_bytes += len(block)
        if rest_bytes > LONGEST_EVENT_BYTES:
            raise _too_long()
    if (last := b"".join(rest)).strip():
        yield last + b"\n"


def _too_long() -> IngestError:
    return IngestError("an event is too long", expected=f"at most {LONGEST_EVENT_BYTES >> 20} MB")
