"""A growing file as pieces of whole lines, for as long as somebody wants to know; a rotated one is followed on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from headrace.errors import IngestError
from headrace.files import PIECE_BYTES, Piece
from headrace.lake.formats.compression import compression_of
from headrace.lake.formats.lines import LONGEST_EVENT_BYTES

POLL_S = 0.2  # a line is sent at most so long after it was written, and the time of its request


def follow_file(path: Path) -> Iterator[Piece]:
    """All whole lines of the file from its beginning, and those that come later. It ends when its reader stops.

    A file that was truncated is read again from its beginning. One that was replaced by another of its name is
    read to its end first; there a line without a line end is taken as whole.
    """
    file = path.open("rb", buffering=0)
    try:
        if compression_of(file.read(4)):
            raise IngestError(f"file '{path}' is compressed", fix="send it without --follow; it cannot grow by lines")
        file.seek(0)
        rest = b""
        while True:
            block = file.read(PIECE_BYTES)
            if block:
                cut = block.rfind(b"\n") + 1
                if cut:
                    yield Piece(rest + block[:cut], len(rest) + cut)
                rest = block[cut:] if cut else rest + block
                if len(rest) > LONGEST_EVENT_BYTES:
                    raise IngestError(f"file '{path}': a line is longer than {LONGEST_EVENT_BYTES >> 20} MB")
            elif _was_replaced(path, file):
                if rest.strip():
                    yield Piece(rest + b"\n", len(rest))
                file.close()
                file, rest = path.open("rb", buffering=0), b""
            elif os.fstat(file.fileno()).st_size < file.tell():
                file.seek(0)
                rest = b""
            else:
                time.sleep(POLL_S)
    finally:
        file.close()


def _was_replaced(path: Path, file: BinaryIO) -> bool:
    """Whether the name stands for another file now. While there is none of the name, the old one is still it."""
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return False
    held = os.fstat(file.fileno())
    return (now.st_dev, now.st_ino) != (held.st_dev, held.st_ino)
