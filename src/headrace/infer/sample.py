"""A bounded sample of a file: its head, and pieces spread through the rest."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.define.model import Stream
from headrace.errors import IngestError

HEAD_BYTES = 4 << 20
PIECES, PIECE_BYTES = 16, 64 << 10
MOST_ROWS = 10_000  # of the head, and as many of all pieces
_FORMS = "NDJSON, a JSON array"


@dataclass
class Sample:
    """Events of a file, in its order. `runs` are the stretches of them without a gap: lateness shows within one."""

    path: Path
    form: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    events: list[bytes] = field(default_factory=list)  # as they are sent; also those that are no JSON object
    runs: list[int] = field(default_factory=list)
    texts: bool = False  # the form knows only text

    def as_lines(self, stream: Stream) -> bytes:
        """The events as NDJSON, as `headrace send` gives them to the stream."""
        return b"\n".join(self.events) + b"\n"


def read_sample(path: Path) -> Sample:
    """The sample of a file. Raises IngestError if no event can be seen in it."""
    head, pieces = _read(path)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        raise IngestError(f"file '{path}' is empty", expected=f"events, as {_FORMS}")
    if b"\0" in head:
        raise IngestError(f"file '{path}' is not text", found="NUL bytes", expected=f"a file of {_FORMS}")
    if start[:1] == b"[":
        return _read_array(path, start)
    if start[:1] == b"{":
        return _read_lines(path, [start, *pieces])
    raise IngestError(
        f"file '{path}' has no form that can be read", found=repr(start[:20].decode(errors="replace")), expected=_FORMS
    )


def _read(path: Path) -> tuple[bytes, list[bytes]]:
    """The head, ended at a line, and whole lines of pieces further on."""
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise IngestError(f"file '{path}' cannot be read", found=found, expected="a file of events")
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            head = stream.read(HEAD_BYTES)
            whole = not stream.read(1)
        if whole:
            return head, []
        head = head[: head.rfind(b"\n") + 1] or head
        return head, [] if _is_packed(path) else _spread(path, len(head))
    except OSError as error:
        raise IngestError(f"file '{path}' cannot be read: {error}", expected="a file that is whole") from error


def _is_packed(path: Path) -> bool:
    return path.suffix in (".gz", ".zst", ".bz2", ".lz4", ".br")


def _spread(path: Path, start: int) -> list[bytes]:
    total = path.stat().st_size
    pieces = []
    with path.open("rb") as file:
        for number in range(PIECES):
            at = start + (total - start - PIECE_BYTES) * number // (PIECES - 1)
            if at < start:
                continue
            file.seek(at)
            piece = file.read(PIECE_BYTES)
            pieces.append(piece[piece.find(b"\n") + 1 : piece.rfind(b"\n") + 1])
    return pieces


def _read_lines(path: Path, stretches: list[bytes]) -> Sample:
    sample = Sample(path, "NDJSON")
    for number, stretch in enumerate(stretches):
        before = len(sample.events)
        for line in stretch.splitlines()[: MOST_ROWS if not number else MOST_ROWS // PIECES]:
            if not line.strip():
                continue
            sample.events.append(line)
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                sample.rows.append(event)
        sample.runs.append(len(sample.events) - before)
    if not sample.rows:
        raise IngestError(
            f"file '{path}' holds no JSON object on a line",
            found=repr(sample.events[0][:40].decode(errors="replace")),
            expected="NDJSON: one JSON object per line, or a JSON array of objects",
        )
    return sample


def _read_array(path: Path, head: bytes) -> Sample:
    text = head.decode(errors="replace")
    sample, decoder, at = Sample(path, "JSON array"), json.JSONDecoder(), 1
    while len(sample.rows) < MOST_ROWS:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            event, at = decoder.raw_decode(text, at)
        except ValueError:
            break  # the end of the array, or of the head
        sample.events.append(json.dumps(event).encode())
        if isinstance(event, dict):
            sample.rows.append(event)
    if not sample.rows:
        raise IngestError(f"file '{path}' holds no JSON object in its array", expected="a JSON array of objects")
    sample.runs.append(len(sample.events))
    return sample
