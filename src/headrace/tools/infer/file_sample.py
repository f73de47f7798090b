"""A bounded sample of a file: its head, and pieces spread through the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from headrace.define.model import Stream
from headrace.errors import IngestError
from headrace.ingest.formats.byte_source import ByteSource, compression_of, unpack
from headrace.ingest.formats.csv_lines import Utf8, field_names, match_titles, read_titles, sniff_delimiter
from headrace.ingest.formats.format_detection import FileLayout, Format, format_of_name
from headrace.ingest.formats.stored_lines import read_lines
from headrace.parse.frames import NEWLINE
from headrace.tools.infer.log_lines import LINES, VALUE, LineKind, kind_of

MOST_ROWS, MOST_BYTES = 10_000, 8 << 20  # of the head
PIECES, PIECE_BYTES, PIECE_ROWS = 16, 64 << 10, 600
KIND_LINES = 100  # lines from which the kind of text is inferred
_FORMS = "NDJSON, a JSON array, CSV with a header, Parquet or lines of text"
_DATA = re.compile(r"[+-]?\d+(?:[.,]\d+)*|\d{4}-\d\d-\d\d.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*", re.ASCII)


@dataclass
class FileSample:
    """Events of a file, in its order. `runs` are lengths of consecutive parts, within which lateness is measured."""

    path: Path
    layout: FileLayout
    titles: list[str] = field(default_factory=list)  # of the columns of CSV
    rows: list[dict[str, Any]] = field(default_factory=list)
    events: list[bytes] = field(default_factory=list)  # a line each; also those that are not JSON objects
    runs: list[int] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)  # whole lines of the file, after the head

    @property
    def texts(self) -> bool:
        """Return whether the format has only text."""
        return self.layout.format is Format.CSV

    @property
    def is_text(self) -> bool:
        """Return whether an event is a line of text."""
        return self.layout.format is Format.TEXT

    @cached_property
    def kind(self) -> LineKind:
        """The kind of its lines of text."""
        return kind_of([row[VALUE] for row in self.rows])

    @property
    def shape(self) -> frozenset[str]:
        """The common parts of the events of a stream: their field names, or the kind of their lines."""
        return frozenset([self.kind.name]) if self.is_text else frozenset(name for row in self.rows for name in row)

    def as_lines(self, stream: Stream) -> bytes:
        """The events as NDJSON, as `headrace send` would send them: cells by the type of their field."""
        if not self.texts:
            return b"\n".join(self.events) + b"\n"
        types = {key: str(of) for key, of in stream.key_types().items()}
        return b"".join(line + b"\n" for run in _runs(self, types) for line in run)


def read_sample(path: Path, fields: tuple[str, ...] = ()) -> FileSample:
    """The sample of a file; `fields` name the columns of CSV without a header.

    Raises IngestError if it contains no event.
    """
    with _open(path) as source:
        layout, titles = _layout(path, source, fields)
    sample = FileSample(path, layout, titles)
    sample.pieces = _spread(path, layout)
    types = dict.fromkeys(field_names(titles), "STRING")
    for lines in _runs(sample, types):
        before = len(sample.events)
        for line in lines:
            sample.events.append(line)
            event = {VALUE: line.decode(errors="replace")} if sample.is_text else _object(line)
            if event is not None:
                sample.rows.append(event)
        sample.runs.append(len(sample.events) - before)
    if not sample.rows:
        start = sample.events[0][:40].decode(errors="replace") if sample.events else "only a header"
        raise IngestError(
            f"file '{path}' contains no event that can be read",
            found=repr(start),
            expected=f"JSON objects, as {_FORMS}",
        )
    return sample


@contextmanager
def _open(path: Path) -> Iterator[ByteSource]:
    if not path.is_file():
        reason = "a folder" if path.is_dir() else "no such file"
        raise IngestError(f"file '{path}' cannot be read", found=reason, expected="a file of events")
    try:
        with path.open("rb", buffering=0) as file:
            yield unpack(ByteSource(file))
    except OSError as error:
        raise IngestError(f"file '{path}' cannot be read", found=error.strerror or str(error)) from error
    except IngestError as error:
        if f"'{path}'" not in error.message:
            error.message = f"file '{path}': {error.message}"
        raise


def _layout(path: Path, source: ByteSource, fields: tuple[str, ...]) -> tuple[FileLayout, list[str]]:
    """The layout of the file, by its first bytes, and for CSV the titles of its columns."""
    head = source.look()
    if head.startswith(b"PAR1"):
        return FileLayout(Format.PARQUET), []
    Utf8(ByteSource(head))  # raises an error that names another Unicode encoding
    text = head.removeprefix(b"\xef\xbb\xbf").strip()
    if not text:
        raise IngestError(f"file '{path}' is empty", expected=f"events, as {_FORMS}")
    if b"\0" in head:
        raise IngestError(f"file '{path}' is not text", found="NUL bytes", expected=f"a file of {_FORMS}")
    if text.startswith(b"["):
        return FileLayout(Format.JSON), []
    if text.startswith(b"{"):
        first, _, rest = text.partition(b"\n")
        return FileLayout(Format.NDJSON if first.strip().endswith(b"}") or not rest else Format.JSON), []
    if not fields and _is_text(path, head):
        return FileLayout(Format.TEXT), []
    return _csv_layout(path, head, fields)


def _is_text(path: Path, head: bytes) -> bool:
    """Return whether lines are a log, or at least not rows of CSV; a file name that ends in .csv decides."""
    name_format = format_of_name(path.name)
    if name_format is Format.CSV:
        return False
    delimiter = sniff_delimiter(head)
    # The last line may be cut off, and the first one may be a header, which no log has.
    lines = head.decode(errors="replace").splitlines()[: KIND_LINES + 1]
    kind = kind_of(lines[:-1] or lines)
    if kind is not LINES and kind.pattern.match(lines[0]):
        # Rows of CSV without a header may begin with a time too; they have the same number of cells each.
        certain = kind.is_access_log or ".log" in path.name.lower()
        return certain or not (_is_even(head, delimiter) and lines[0].count(delimiter) > 1)
    return delimiter not in lines[0] or (name_format is Format.TEXT and not _is_even(head, delimiter))


def _csv_layout(path: Path, head: bytes, fields: tuple[str, ...]) -> tuple[FileLayout, list[str]]:
    delimiter = sniff_delimiter(head)
    titles = read_titles(ByteSource(Utf8(ByteSource(head))), delimiter)
    first_titles = ", ".join(repr(title) for title in titles[:5])
    if len(titles) < 2:
        raise IngestError(
            f"file '{path}' has one column",
            found=first_titles[:80],
            expected=f"{_FORMS}; columns separated by , ; | or tab",
            fix="if it contains lines of text, name it .txt or .log: its stream has the format TEXT then",
        )
    if fields:
        return FileLayout(Format.CSV, delimiter, fields), list(fields)
    if any(_DATA.fullmatch(title) for title in titles):
        raise IngestError(
            f"file '{path}' has no header",
            found=f"data in its first row: {first_titles}",
            expected="a first row that names each column",
            fix=f"name its {len(titles)} columns: --fields id,at,page,…",
        )
    return FileLayout(Format.CSV, delimiter), titles


def _is_even(head: bytes, delimiter: str) -> bool:
    """Return whether the first lines have the same number of columns."""
    lines = head.decode(errors="replace").splitlines()[:5]
    return len({line.count(delimiter) for line in lines}) == 1


def _runs(sample: FileSample, types: Mapping[str, str]) -> Iterator[list[bytes]]:
    """The lines of the head, then those of each piece: runs of consecutive lines."""
    with _open(sample.path) as source:
        yield _take(read_lines(source, sample.layout, types), MOST_ROWS, MOST_BYTES)
    piece_layout = FileLayout(sample.layout.format, sample.layout.delimiter, tuple(match_titles(sample.titles, types)))
    for piece in sample.pieces:
        yield _take(read_lines(ByteSource(piece), piece_layout, types), PIECE_ROWS, MOST_BYTES)


def _take(pieces: Iterable[bytes], rows: int, size: int) -> list[bytes]:
    lines: list[bytes] = []
    for piece in pieces:
        lines += [line for line in piece.split(b"\n") if line.strip()]
        size -= len(piece)
        if len(lines) >= rows or size <= 0:
            break
    return lines[:rows]


def _spread(path: Path, layout: FileLayout) -> list[bytes]:
    """Complete lines of pieces at even distances after the head, if the format can be read from any line."""
    with path.open("rb") as file:
        head = file.read(MOST_BYTES)
        if layout.format not in (Format.NDJSON, Format.CSV, Format.TEXT) or compression_of(head[:4]):
            return []
        # A quoted cell of CSV may contain a line break, so that the start of a line may not be the start of a row.
        if layout.format is Format.CSV and b'"' in head:
            return []
        lines = np.flatnonzero(np.frombuffer(head, dtype=np.uint8) == NEWLINE)
        start = int(lines[MOST_ROWS]) if len(lines) > MOST_ROWS else len(head)
        rest_bytes = path.stat().st_size - start - PIECE_BYTES
        pieces = []
        for number in range(PIECES if rest_bytes > 0 else 0):
            file.seek(start + rest_bytes * number // (PIECES - 1))
            piece = file.read(PIECE_BYTES)
            pieces.append(piece[piece.find(b"\n") + 1 : piece.rfind(b"\n") + 1])
    return [piece for piece in pieces if piece]


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
