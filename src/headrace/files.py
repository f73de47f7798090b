"""Files, folders and standard input as pieces of lines to send, whatever their format and compression."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from headrace.errors import IngestError
from headrace.lake.formats.compression import unpack
from headrace.lake.formats.layout import ANY, SUFFIXES, Layout, check_format, format_of, format_of_name
from headrace.lake.formats.lines import read_lines
from headrace.lake.formats.source import Source

STANDARD_INPUT = Path("-")
PIECE_BYTES = 4 << 20


@dataclass(frozen=True)
class Declared:
    """What has to be known of a stream to write its events: the format of its lines and its fields' types."""

    stream: str
    format: str
    types: Mapping[str, str]

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Declared:
        """From what a server or a folder says of the stream."""
        fields = {field["name"]: field["type"] for field in said["fields"] if not field["computed"]}
        return cls(said["name"], said["format"], fields)


@dataclass(frozen=True)
class Piece:
    """Some lines, and how many bytes of their file were read for them."""

    lines: bytes
    read_bytes: int


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The files, and those of the folders: sorted, at any depth, of a kind that is known by name, none hidden."""
    found: list[Path] = []
    for path in paths:
        if path == STANDARD_INPUT:
            found.append(path)
        elif path.is_dir():
            inside = sorted(file for file in path.rglob("*") if _is_meant(file, path))
            if not inside:
                raise IngestError(
                    f"folder '{path}' holds no file that can be sent",
                    expected=f"files named {', '.join('*' + suffix for suffix in SUFFIXES)}, also with .gz or .zst",
                )
            found += inside
        else:
            _check_file(path)
            found.append(path)
    return found


def read_pieces(
    files: Iterable[Path], declared: Declared, layout: Layout = ANY, size: int = PIECE_BYTES
) -> Iterator[Piece]:
    """The events of the files in pieces of about `size` bytes, each of whole lines of one file."""
    for path in files:
        try:
            with nullcontext(_standard_input()) if path == STANDARD_INPUT else path.open("rb", buffering=0) as file:
                yield from _pieces_of(path, file, declared, layout, size)
        except OSError as error:
            raise IngestError(f"file '{path}' cannot be read", found=error.strerror or str(error)) from error
        except IngestError as error:
            if path != STANDARD_INPUT:
                error.message = f"file '{path}': {error.message}"
            raise


def _pieces_of(path: Path, file: BinaryIO, declared: Declared, layout: Layout, size: int) -> Iterator[Piece]:
    source = unpack(Source(file))
    format = layout.format or format_of(path.name, source.look(), declared.format, declared.types)
    check_format(declared.stream, declared.format, format)
    done, held = 0, []
    for lines in read_lines(source, replace(layout, format=format), declared.types, size):
        held.append(lines)
        if sum(map(len, held)) >= size:
            at = _position(file, done + sum(map(len, held)))
            yield from _cut(b"".join(held), size, max(0, at - done))
            done, held = max(at, done), []
    if held:
        yield from _cut(b"".join(held), size, max(0, _position(file, done) - done))


def _cut(lines: bytes, size: int, read_bytes: int) -> Iterator[Piece]:
    """Pieces of no more than twice the size, if lines allow it: what CSV is read from grows when it is written."""
    start = 0
    while len(lines) - start > 2 * size:
        end = lines.find(b"\n", start + size) + 1
        yield Piece(lines[start:end], 0)
        start = end
    if start < len(lines):
        yield Piece(lines[start:] if start else lines, read_bytes)


def _standard_input() -> BinaryIO:
    """Without a buffer of its own: what a slow pipe gives can be looked at before all of it has come."""
    return cast(BinaryIO, getattr(sys.stdin.buffer, "raw", sys.stdin.buffer))


def _position(file: BinaryIO, otherwise: int) -> int:
    """How far the file was read; a pipe does not know."""
    try:
        return file.tell()
    except OSError:
        return otherwise


def _is_meant(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return not hidden and file.is_file() and format_of_name(file.name) is not None


def _check_file(path: Path) -> None:
    try:
        status = os.stat(path)
        if not stat.S_ISFIFO(status.st_mode):  # to open one would wait for its writer
            path.open("rb").close()
    except OSError as error:
        raise IngestError(
            f"file '{path}' cannot be read",
            found="no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error),
            expected="a file, a folder, or - for standard input",
        ) from error
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        raise IngestError(f"file '{path}' is empty", fix="nothing was sent")
