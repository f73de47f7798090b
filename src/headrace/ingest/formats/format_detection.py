"""Detects the format of a body or a file, by its name or content type, else by its content."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from headrace.errors import IngestError


class Format(StrEnum):
    """A format of events."""

    NDJSON = "ndjson"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    TEXT = "text"


@dataclass(frozen=True)
class FileLayout:
    """A format (None: detect it) and, for CSV, what its first row does not contain."""

    format: Format | None = None
    delimiter: str | None = None
    fields: tuple[str, ...] = ()


ANY = FileLayout()


class LayoutError(IngestError):
    """An invalid layout from a user."""

    exit_code = 2


SUFFIXES = {
    ".ndjson": Format.NDJSON,
    ".jsonl": Format.NDJSON,
    ".json": Format.JSON,
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
    ".parquet": Format.PARQUET,
    ".txt": Format.TEXT,
    ".log": Format.TEXT,
}
PACKED_SUFFIXES = (".gz", ".zst", ".zstd")
_DELIMITERS = {",": ",", ";": ";", "tab": "\t", "\\t": "\t", "\t": "\t", "|": "|", "pipe": "|"}
_WORDS = re.compile(rb'[,;\t|\r\n"]+')


def make_layout(format: Format | None, delimiter: str | None = None, fields: str | None = None) -> FileLayout:
    """A layout from what a user wrote; `fields` are names with commas between them."""
    if delimiter is not None and delimiter not in _DELIMITERS:
        raise LayoutError(f"delimiter '{delimiter}' is not supported", expected="one of , ; | tab")
    names = tuple(name.strip() for name in (fields or "").split(",")) if fields else ()
    return FileLayout(format, _DELIMITERS[delimiter] if delimiter else None, names)


def format_of_name(name: str) -> Format | None:
    """The format by the suffix of a file's name, before that of its compression."""
    name = name.lower()
    for packed in PACKED_SUFFIXES:
        name = name.removesuffix(packed)
    return next((format for suffix, format in SUFFIXES.items() if name.endswith(suffix)), None)


def format_by_looks(head: bytes, fields: Collection[str]) -> Format:
    """The format by the first bytes of what was sent to a stream of JSON events."""
    if head.startswith(b"PAR1"):
        return Format.PARQUET
    text = head.removeprefix(b"\xef\xbb\xbf").strip()
    first, _, rest = text.partition(b"\n")
    line = first.strip()
    if text.startswith(b"["):
        return Format.JSON
    if text.startswith(b"{"):
        return Format.NDJSON if line.endswith(b"}") and rest else Format.JSON
    if any(word.decode(errors="replace").strip() in fields for word in _WORDS.split(line)):
        return Format.CSV
    return Format.NDJSON


def format_so_far(head: bytes) -> Format:
    """The format by the first bytes of a JSON input that continues: a complete first line is the first of several."""
    line = head.removeprefix(b"\xef\xbb\xbf").strip().partition(b"\n")[0].strip()
    return Format.NDJSON if line.startswith(b"{") and line.endswith(b"}") else Format.JSON


def format_of(name: str, head: bytes, stream_format: str, fields: Collection[str]) -> Format:
    """The format by the stream, the name and the first bytes of what is sent to it; Parquet by its bytes alone."""
    by_content = format_by_looks(head, fields)
    if by_content is Format.PARQUET:
        return by_content
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):  # UTF-16 is detected by its reader
        raise IngestError(
            "the content is not text", found="NUL bytes", expected=", ".join(Format), fix="nothing was sent"
        )
    if stream_format == Format.TEXT:
        return Format.TEXT
    by_name = format_of_name(name)
    # Many .json files hold one object per line; .txt and .log do not determine the content of lines.
    return by_content if by_name in (None, Format.JSON, Format.TEXT) else by_name


def check_format(stream: str, stream_format: str, format: Format) -> None:
    """Refuse a format that the stream's events cannot be in."""
    if stream_format == Format.CSV:
        raise IngestError(
            f"stream '{stream}' reads rows of CSV from Kafka and takes no events from elsewhere",
            fix="produce the rows to its topic, or declare the stream with FORMAT JSON",
        )
    wants_text = stream_format == Format.TEXT
    if wants_text == (format is Format.TEXT):
        return
    if wants_text:
        raise IngestError(
            f"stream '{stream}' has the format TEXT",
            found=f"events as {format}",
            expected="lines of text (text/plain, `--format text`)",
        )
    raise IngestError(
        f"stream '{stream}' takes JSON events",
        found="lines of text",
        expected=", ".join(each for each in Format if each is not Format.TEXT),
        fix="a stream of lines is declared with FORMAT TEXT",
    )
