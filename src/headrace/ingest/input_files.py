"""Files, folders and standard input as pieces of lines to send, whatever their format and compression."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

from headrace.errors import IngestError
from headrace.ingest.file_marks import (
    Hashed,
    Mark,
    MarkMatch,
    ReadContent,
    best_match,
    drop_lines,
    hash_of_event,
    without_trailing_blanks,
)
from headrace.ingest.formats.byte_source import LINGER_S, LOOK_BYTES, ByteSource, Pipe, unpack
from headrace.ingest.formats.format_detection import (
    ANY,
    SUFFIXES,
    FileLayout,
    Format,
    check_format,
    format_of,
    format_of_name,
    format_so_far,
)
from headrace.ingest.formats.stored_lines import line_blocks, read_lines
from headrace.ingest.line_buffers import count_newlines

STANDARD_INPUT = Path("-")
PIECE_BYTES = 4 << 20
_LINES = (Format.NDJSON, Format.TEXT)
_REWRITTEN = (Format.JSON, Format.PARQUET)  # a file that has grown has other bytes from the start


@dataclass(frozen=True)
class StreamShape:
    """The facts of a stream that a sender needs: the format of its lines and the types of its fields."""

    stream: str
    format: str
    types: Mapping[str, str]


@dataclass(frozen=True)
class Piece:
    """Some lines, how many bytes of their file were read for them, and the mark of the file after them."""

    lines: bytes | memoryview
    read_bytes: int
    mark: Mark | None = None

    @property
    def is_blank(self) -> bool:
        """Return whether it has no event."""
        return bytes(self.lines[:LOOK_BYTES]).isspace() and bytes(self.lines).isspace()

    @property
    def first_event(self) -> bytes:
        """The first line that is not blank."""
        return next(line for line in bytes(self.lines).split(b"\n") if line.strip())

    def halves(self) -> list[Piece]:
        """Two pieces, if it has more than one line."""
        lines = bytes(self.lines)
        cut = lines.rfind(b"\n", 0, len(lines) // 2) + 1 or lines.find(b"\n") + 1
        if not 0 < cut < len(lines):
            return []
        rest = Piece(lines[cut:], self.read_bytes, self.mark)
        mark = self.mark and self.mark.before(count_newlines(rest.lines))
        return [Piece(lines[:cut], 0, mark), rest]


class Resumable(Protocol):
    """A source that is sent in pieces, and continued at a mark if it has a name."""

    @property
    def name(self) -> str | None: ...

    @property
    def label(self) -> str:
        """The name in messages."""

    @property
    def size(self) -> int:
        """The size in bytes."""

    def first(self) -> str | None:
        """The hash of its first event; None if there is none."""

    def match(self, marks: Iterable[Mark]) -> MarkMatch | None:
        """The furthest of the marks that it matches."""

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """The events without the first `skip` lines."""

    def written_s(self) -> float | None:
        """The time of the last write; None if that is not known."""

    def is_still(self, name: str, mark: Mark) -> bool:
        """Return whether what has this name still has the content of the mark."""


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The files, and those of the folders: sorted, at any depth, with a known suffix, none hidden."""
    files: list[Path] = []
    for path in paths:
        if path == STANDARD_INPUT:
            files.append(path)
        elif path.is_dir():
            folder_files = sorted(file for file in path.rglob("*") if is_sendable(file, path))
            if not folder_files:
                raise IngestError(
                    f"folder '{path}' contains no file that can be sent",
                    expected=f"files named {', '.join('*' + suffix for suffix in SUFFIXES)}, also with .gz or .zst",
                )
            files += folder_files
        else:
            _check_file(path)
            files.append(path)
    return files


class SourceFile:
    """A file to be sent, or standard input. Only a regular file has a name: it can be read again."""

    def __init__(self, path: Path, declared: StreamShape, layout: FileLayout = ANY, size: int = PIECE_BYTES) -> None:
        self.path = path
        self._declared = declared
        self._layout = layout
        self._size = size
        self.name = _name(path) if path != STANDARD_INPUT and path.is_file() else None
        self.label = str(path)

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.path.stat().st_size

    def written_s(self) -> float | None:
        """The time of the last write; None if that is not known."""
        try:
            return self.path.stat().st_mtime
        except OSError:
            return None

    def is_still(self, name: str, mark: Mark) -> bool:
        """Return whether the file of this name still has the content of the mark."""
        other = SourceFile(Path(name), self._declared, self._layout)
        try:
            return other.name is not None and other.match([mark]) is not None
        except IngestError:
            return False

    def first(self) -> str | None:
        """The hash of its first event; None if there is none."""
        with self._opened() as (source, layout):
            for lines in read_lines(source, layout, self._declared.types):
                event = next((line for line in lines.split(b"\n") if line.strip()), None)
                if event is not None:
                    return hash_of_event(event)
        return None

    def match(self, marks: Iterable[Mark]) -> MarkMatch | None:
        """The furthest of the marks that this file matches: its bytes up to there have not changed."""
        marks = list(marks)
        if not marks:
            return None
        with self._opened() as (source, layout):
            return best_match(self._content_blocks(source, layout), marks)

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """The events in pieces of about the same size, each of complete lines, without the first `skip` lines."""
        with self._opened() as (source, layout):
            yield from _pieces(source, layout, self._declared, self._size, skip, at_once=source.is_pipe)

    def _content_blocks(self, source: _Opened, layout: FileLayout) -> Iterator[bytes]:
        if layout.format in _REWRITTEN:
            for lines in read_lines(source, layout, self._declared.types):
                yield without_trailing_blanks(lines)
        else:
            while block := source.read(1 << 20):
                yield block

    @contextmanager
    def _opened(self) -> Iterator[tuple[_Opened, FileLayout]]:
        """The file unpacked, and its format."""
        try:
            with (
                nullcontext(_standard_input())
                if self.path == STANDARD_INPUT
                else self.path.open("rb", buffering=0) as file
            ):
                source = _Opened(file if file.seekable() else Pipe(file))
                head, declared = source.look(linger_s=LINGER_S), self._declared
                format = self._layout.format or format_of(self.path.name, head, declared.format, declared.types)
                if format is Format.JSON and self._layout.format is None and source.is_waiting:
                    format = format_so_far(head)
                check_format(declared.stream, declared.format, format)
                yield source, replace(self._layout, format=format)
        except OSError as error:
            raise IngestError(f"file '{self.path}' cannot be read", found=error.strerror or str(error)) from error
        except IngestError as error:
            if self.path != STANDARD_INPUT:
                error.message = f"file '{self.path}': {error.message}"
            raise


class _Opened(ByteSource):
    """A file, decompressed if it is compressed; knows how far it was read."""

    def __init__(self, file: io.RawIOBase | Pipe) -> None:
        source = unpack(ByteSource(file))
        super().__init__(source)
        self._file = file
        self._unpacked = source
        self.is_pipe = isinstance(file, Pipe)

    def seekable_file(self) -> Any:
        return self._unpacked.seekable_file()

    @property
    def is_waiting(self) -> bool:
        """Return whether an open pipe has no more bytes yet."""
        return not self._has_more(0.0)

    def position(self, otherwise: int) -> int:
        """The number of bytes of the file that were read; `otherwise` for a pipe."""
        try:
            return otherwise if isinstance(self._file, Pipe) else self._file.tell()
        except OSError:
            return otherwise


def _pieces(
    source: _Opened, layout: FileLayout, declared: StreamShape, size: int, skip: int, *, at_once: bool
) -> Iterator[Piece]:
    """`at_once`: lines do not wait for others, so that those of a slow pipe are sent as they arrive."""
    content = ReadContent(blank_counts=layout.format is Format.CSV)
    derived = layout.format in _REWRITTEN
    hashed = source if derived else ByteSource(Hashed(source, content))
    blocks = line_blocks(hashed, size) if layout.format in _LINES else read_lines(hashed, layout, declared.types, size)
    chunks: list[bytes | memoryview] = []
    count = reported_bytes = 0  # lines so far; bytes of the file in the pieces so far
    for lines in blocks:
        chunk_bytes = sum(map(len, chunks))
        if chunks and chunk_bytes + len(lines) > size:  # not before more was read: the mark of the last piece says so
            at = max(reported_bytes, source.position(reported_bytes + chunk_bytes))
            yield from _cut(chunks, size, at - reported_bytes, content.mark(count, ended=False))
            reported_bytes, chunks = at, []
        if derived:
            content.add(without_trailing_blanks(bytes(lines)))
        lines_here = count_newlines(lines)
        count += lines_here
        if skip >= lines_here:
            skip -= lines_here
        else:
            chunks.append(drop_lines(lines, skip))
            skip = 0
        if at_once and chunks:
            sent = sum(map(len, chunks))
            yield from _cut(chunks, size, sent, content.mark(count, ended=False))
            reported_bytes, chunks = reported_bytes + sent, []
    if chunks:
        at = max(reported_bytes, source.position(reported_bytes))
        yield from _cut(chunks, size, at - reported_bytes, content.mark(count, ended=True))


def _cut(chunks: list[bytes | memoryview], size: int, read_bytes: int, mark: Mark) -> Iterator[Piece]:
    """Pieces of no more than twice the size, if lines allow it: CSV grows when it is written as JSON."""
    if len(chunks) == 1 and len(chunks[0]) <= 2 * size:
        yield Piece(chunks[0], read_bytes, mark)
        return
    lines = b"".join(chunks)
    start, lines_after = 0, count_newlines(lines)
    while len(lines) - start > 2 * size:
        end = lines.find(b"\n", start + size) + 1
        lines_after -= count_newlines(memoryview(lines)[start:end])
        yield Piece(lines[start:end], 0, mark.before(lines_after))
        start = end
    if start < len(lines):
        yield Piece(lines[start:] if start else lines, read_bytes, mark)


def _name(path: Path) -> str:
    """The name of a file: its absolute path, as text whatever bytes it has."""
    return os.fsencode(path.resolve()).decode("utf-8", "backslashreplace")


def _standard_input() -> io.RawIOBase:
    """Unbuffered, so that the first bytes of a slow pipe can be inspected before the rest arrives."""
    return cast(io.RawIOBase, getattr(sys.stdin.buffer, "raw", sys.stdin.buffer))


def is_sendable(file: Path, folder: Path) -> bool:
    """Return whether a file of a folder is sent with it: it has a known suffix and is not hidden."""
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return not hidden and file.is_file() and format_of_name(file.name) is not None


def _check_file(path: Path) -> None:
    try:
        status = os.stat(path)
        if not stat.S_ISFIFO(status.st_mode):  # opening one would block until it has a writer
            path.open("rb").close()
    except OSError as error:
        raise IngestError(
            f"file '{path}' cannot be read",
            found="no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error),
            expected="a file, a folder, or - for standard input",
        ) from error
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        raise IngestError(f"file '{path}' is empty", fix="nothing was sent")
