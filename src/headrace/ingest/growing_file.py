"""Follows a growing file in parts of complete lines; also after rotation."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from headrace.errors import HeadraceError, IngestError, StaleMarkError
from headrace.ingest.file_marks import ReadContent, drop_lines
from headrace.ingest.formats.byte_source import compression_of
from headrace.ingest.formats.stored_lines import LONGEST_EVENT_BYTES
from headrace.ingest.input_files import PIECE_BYTES, Piece, SourceFile
from headrace.ingest.sending import Sending

POLL_S = 0.2  # a line is sent at most this long after it was written


def follow(sending: Sending, file: SourceFile) -> None:
    """Send a file and what is appended to it, from its stored mark on, until interrupted."""
    while True:
        try:
            for piece in follow_file(file.path, sending.begin(file)):
                if piece is None:
                    sending.restart()
                else:
                    sending.add(piece)
                    sending.finish()
        except StaleMarkError as error:
            sending.wait_for_other(error)
        except HeadraceError as error:
            sending.explain(error)
            raise


def follow_file(path: Path, skip: int = 0) -> Iterator[Piece | None]:
    """All complete lines of the file except the first `skip`, and those that are appended later, without end.

    None precedes the lines of a file that is read from its beginning again.
    """
    growing = GrowingFile(path, skip)
    try:
        while True:
            yield from growing.pieces()
            time.sleep(POLL_S)
    finally:
        growing.close()


class GrowingFile:
    """A file that is read as it grows.

    A file that was truncated is read again from its beginning. One that was replaced by another of its name is
    read to its end first; there a line without a line end counts as complete.
    """

    def __init__(self, path: Path, skip: int = 0) -> None:
        self._path = path
        self._reading = _Reading(path, skip)

    def pieces(self) -> Iterator[Piece | None]:
        """The complete lines that are there and were not read. None: the file is read from its beginning again."""
        while True:
            block = self._reading.file.read(PIECE_BYTES)
            if block:
                piece = self._reading.take(block)
                if piece:
                    yield piece
            elif _was_replaced(self._path, self._reading.file):
                last = self._reading.last()
                if last:
                    yield last
                yield from self._read_anew()
            elif os.fstat(self._reading.file.fileno()).st_size < self._reading.file.tell():
                yield from self._read_anew()
            else:
                return

    @property
    def rest(self) -> bytes:
        """The last line, if it has no line end."""
        return self._reading.rest

    def last(self) -> Piece | None:
        """The last line, if it has no line end, as one that is complete: no more is read after it."""
        return self._reading.last()

    def close(self) -> None:
        self._reading.file.close()

    def _read_anew(self) -> Iterator[None]:
        self._reading.file.close()
        self._reading = _Reading(self._path)
        yield None


class _Reading:
    """One file from its beginning: what was read of it, and the line that is incomplete."""

    def __init__(self, path: Path, skip: int = 0) -> None:
        self.file = path.open("rb", buffering=0)
        if compression_of(self.file.read(4)):
            self.file.close()
            raise IngestError(f"file '{path}' is compressed", fix="send it without --follow; it cannot grow by lines")
        self.file.seek(0)
        self._path = path
        self._skip = skip
        self._content = ReadContent()
        self._lines = 0
        self.rest = b""

    def take(self, block: bytes) -> Piece | None:
        """The complete lines that end in a block."""
        self._content.add(block)
        cut = block.rfind(b"\n") + 1
        lines, self.rest = (self.rest + block[:cut], block[cut:]) if cut else (b"", self.rest + block)
        if len(self.rest) > LONGEST_EVENT_BYTES:
            raise IngestError(f"file '{self._path}': a line is longer than {LONGEST_EVENT_BYTES >> 20} MB")
        return self._piece(lines, ended=False)

    def last(self) -> Piece | None:
        """The incomplete line, when no more will follow."""
        return self._piece(self.rest + b"\n", ended=True) if self.rest.strip() else None

    def _piece(self, lines: bytes, *, ended: bool) -> Piece | None:
        count = lines.count(b"\n")
        self._lines += count
        if count <= self._skip:
            self._skip -= count
            return None
        skip, self._skip = self._skip, 0
        return Piece(drop_lines(lines, skip), len(lines), self._content.mark(self._lines, ended=ended))


def _was_replaced(path: Path, file: BinaryIO) -> bool:
    """Return whether the name belongs to another file now; not while no file has the name."""
    try:
        current = os.stat(path)
    except FileNotFoundError:
        return False
    own = os.fstat(file.fileno())
    return (current.st_dev, current.st_ino) != (own.st_dev, own.st_ino)
