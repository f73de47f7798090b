"""A JSON array as NDJSON lines, block by block: where its elements end, whatever its size.

The elements themselves are not parsed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from headrace.errors import IngestError
from headrace.ingest.formats.byte_source import ByteSource

BLOCK_BYTES = 1 << 20
LONGEST_EVENT_BYTES = 64 << 20
_NEWLINE, _BACKSLASH = ord("\n"), ord("\\")
_QUOTE, _COMMA, _OPEN, _CLOSE = 1, 2, 3, 4  # the kinds of bytes that matter; all others are 0
_KINDS = np.zeros(256, dtype=np.uint8)
for _kind, _bytes in ((_QUOTE, b'"'), (_COMMA, b","), (_OPEN, b"[{"), (_CLOSE, b"]}")):
    _KINDS[list(_bytes)] = _kind
_MATTERS = _KINDS > 0
_STEPS = np.array([0, 0, 0, 1, -1], dtype=np.int8)  # of the depth, by kind
_FLAT = bytes.maketrans(b"\r\n", b"  ")
_BLANK = b" \t\r\n"
_EMPTY_LINE = re.compile(rb"\n[ \t]*\n")

Bytes = npt.NDArray[np.uint8]


def array_lines(
    source: ByteSource, *, block_bytes: int = BLOCK_BYTES, longest_bytes: int = LONGEST_EVENT_BYTES
) -> Iterator[bytes]:
    """The elements of an array, one line each, in pieces."""
    _skip_opening(source)
    scan = _Scan()
    rest = b""  # of the element that the last block ended in
    separated = False  # whether a comma precedes it
    while not scan.closed and (block := source.read(block_bytes)):
        breaks = scan.breaks(np.frombuffer(block, dtype=np.uint8))
        flat = bytearray(block.translate(_FLAT))  # a line break between tokens would end the line
        if not len(breaks):
            rest = _grown(rest, flat, longest_bytes)
            continue
        np.frombuffer(flat, dtype=np.uint8)[breaks] = _NEWLINE
        end = int(breaks[-1]) + 1
        piece = rest + flat[:end]
        rest = bytes(flat[end:])
        yield _checked(piece, first=not separated, closed=scan.closed)
        separated = True
    if not scan.closed:
        raise _broken("unclosed brackets or quotes")
    if rest.strip(_BLANK) or _has_more(source):
        raise _broken("extra characters after its end")


def compact_array_lines(array: bytes) -> bytes | None:
    """The elements of an array of objects as most programs write it, one line each; None if it is not written so.

    They are right only if every line is then accepted as a JSON object; else `array_lines` must be used. For the first
    line begins where the first element does. If it is a whole object, it ends where that element does, and
    the next line begins where the next element does. A cut inside a string or a nested array leaves a line that is not.
    """
    text = array.strip(_BLANK)
    if (
        len(text) > BLOCK_BYTES
        or not text.startswith(b"[{")
        or not text.endswith(b"}]")
        or b"\n" in text
        or b"\r" in text
    ):
        return None
    separator = b"},{" if b"},{" in text else b"}, {"
    lines = text.replace(separator, separator.replace(b",", b"\n"))
    return b"".join((memoryview(lines)[1:-1], b"\n"))


class _Scan:
    """The state at the end of a block: depth, and whether it ended in a string or after a backslash."""

    def __init__(self) -> None:
        self.closed = False
        self._depth = 1
        self._in_string = False
        self._escaped = False

    def breaks(self, data: Bytes) -> npt.NDArray[np.int64]:
        """The ends of elements: each comma between them and the closing bracket; none after that."""
        at = np.flatnonzero(_MATTERS[data])
        kind = _KINDS[data[at]]
        self._drop_escaped(data, at, kind)
        quotes = kind == _QUOTE
        parity = np.cumsum(quotes, dtype=np.int32) + self._in_string
        outside = ((parity & 1) == 0) & ~quotes
        depth = np.cumsum(np.where(outside, _STEPS[kind], 0), dtype=np.int32) + self._depth
        if len(at):
            self._in_string, self._depth = bool(parity[-1] & 1), int(depth[-1])
        ends = np.flatnonzero(depth == 0)
        last = int(ends[0]) if len(ends) else len(at)
        commas: npt.NDArray[np.int64] = at[:last][((kind == _COMMA) & outside & (depth == 1))[:last]]
        if not len(ends):
            return commas
        if data[at[last]] != ord("]"):
            raise _broken("a wrong bracket at its end")
        self.closed = True
        return np.append(commas, at[last])

    def _drop_escaped(self, data: Bytes, at: npt.NDArray[np.int64], kind: Bytes) -> None:
        """A quote after an odd run of backslashes ends no string; a run may have begun in the last block."""
        slashes = np.flatnonzero(data == _BACKSLASH)
        escaped = np.zeros(0, dtype=np.int64)
        if self._escaped:
            # The first byte is escaped: if it is a backslash, it begins no run.
            escaped = np.zeros(1, dtype=np.int64)
            slashes = slashes[1:] if len(slashes) and slashes[0] == 0 else slashes
        self._escaped = False
        if len(slashes):
            starts = np.concatenate(([True], np.diff(slashes) != 1))
            length = np.diff(np.append(np.flatnonzero(starts), len(slashes)))
            behind = (slashes[starts] + length)[length % 2 == 1]
            self._escaped = len(behind) > 0 and int(behind[-1]) == len(data)
            escaped = np.append(escaped, behind)
        if len(escaped) and len(at):
            place = np.minimum(np.searchsorted(at, escaped), len(at) - 1)
            kind[place[at[place] == escaped]] = 0


def _skip_opening(source: ByteSource) -> None:
    while (head := source.look()) and not head.strip(_BLANK):
        source.skip(len(head))
    start = len(head) - len(head.lstrip(_BLANK))
    if head[start : start + 1] != b"[":
        raise _broken(f"{head[start : start + 20]!r} at its beginning")
    source.skip(start + 1)


def _checked(piece: bytes, *, first: bool, closed: bool) -> bytes:
    """The lines; an empty element is refused, except in an empty array."""
    if closed and first and not piece.strip(_BLANK) and piece.count(b"\n") == 1:
        return b""
    if piece.lstrip(b" \t").startswith(b"\n") or _EMPTY_LINE.search(piece):
        raise IngestError(
            "the JSON array has an empty element",
            fix="remove the extra comma; nothing after it was stored",
        )
    return piece


def _grown(rest: bytes, flat: bytearray, longest_bytes: int) -> bytes:
    if len(rest) + len(flat) > longest_bytes:
        raise _broken(f"an element of more than {longest_bytes >> 20} MB")
    return rest + flat


def _has_more(source: ByteSource) -> bool:
    while block := source.read(BLOCK_BYTES):
        if block.strip(_BLANK):
            return True
    return False


def _broken(problem: str) -> IngestError:
    return IngestError("not a valid JSON array", found=problem, expected="[{...}, {...}]")
