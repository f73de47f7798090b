"""Marks: how much of a file was read, as a number of lines, a number of bytes, and their hash.

The bytes are those of the file, unpacked; for a JSON array and for Parquet, which are rewritten when they grow,
those of the lines that are made from it. In both cases a file that has grown begins with what it was before.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import xxhash

from headrace.ingest.formats.byte_source import ByteSource
from headrace.ingest.line_buffers import end_of_lines


class End(StrEnum):
    """The kind of end that the last line of a mark has."""

    WITHIN = ""  # not the last of the file
    WHOLE = "w"  # the last of the file
    OPEN = "o"  # the last of the file, without a line end: it may grow


@dataclass(frozen=True)
class Mark:
    """The reading position: after `lines` lines, which come from at most the first `bytes` bytes."""

    lines: int
    bytes: int
    hash: str
    end: End = End.WITHIN

    def __str__(self) -> str:
        return f"{self.lines}.{self.bytes}.{self.hash}.{self.end}"

    @classmethod
    def read(cls, text: str) -> Mark | None:
        """Read a mark from its text; None if the text is not a mark."""
        try:
            lines, size, digest, end = text.split(".")
            return cls(int(lines), int(size), digest, End(end))
        except ValueError:
            return None

    def before(self, lines: int) -> Mark:
        """The mark this many lines earlier, of the same bytes: they contain at least its lines."""
        return replace(self, lines=self.lines - lines, end=End.WITHIN) if lines else self


class ReadContent:
    """The bytes that were read so far. Arrow reads ahead in another thread, so marks are made under a lock."""

    def __init__(self, *, blank_counts: bool = False) -> None:
        self._bytes = 0
        self._hash = xxhash.xxh3_128()
        self._open = False  # the last line has no end yet
        self._blank_counts = blank_counts  # a line of spaces is an event, even if a bad one
        self._lock = threading.Lock()

    def add(self, block: bytes | memoryview) -> None:
        """Add bytes that were read."""
        with self._lock:
            self._bytes += len(block)
            self._hash.update(block)
            cut = end_of_lines(block)
            rest = block[cut:] if self._blank_counts else bytes(block[cut:]).strip()
            self._open = bool(rest) or (self._open and not cut)

    def mark(self, lines: int, *, ended: bool) -> Mark:
        """The mark of what was read so far."""
        with self._lock:
            end = End.WITHIN if not ended else End.OPEN if self._open else End.WHOLE
            return Mark(lines, self._bytes, self._hash.hexdigest(), end)


class Hashed:
    """Reads from a source and adds what was read to a content."""

    def __init__(self, source: ByteSource, content: ReadContent) -> None:
        self._source = source
        self._content = content

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes; none at the end."""
        block = self._source.read(size) or b""
        self._content.add(block)
        return block

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill as much of a buffer as can be read at once; 0 at the end."""
        size = self._source.readinto(buffer)
        self._content.add(buffer[:size])
        return size

    def is_ready(self, timeout_s: float) -> bool:
        """Return whether more can be read within a time, or the end is reached."""
        return self._source.is_ready(timeout_s)


@dataclass(frozen=True)
class MarkMatch:
    """A mark that matches a file, and whether the file ends there."""

    mark: Mark
    at_end: bool
    line_grew: bool = False  # its last line was incomplete, and is longer now

    @property
    def lines(self) -> int:
        """The number of lines that need not be sent."""
        return self.mark.lines - self.line_grew

    @property
    def nothing_new(self) -> bool:
        return self.at_end and self.mark.end is not End.WITHIN


def best_match(blocks: Iterable[bytes], marks: Iterable[Mark]) -> MarkMatch | None:
    """The furthest of the marks whose bytes are those that the blocks begin with."""
    rest = deque(sorted(set(marks), key=lambda mark: (mark.bytes, mark.lines)))
    digest, position = xxhash.xxh3_128(), 0
    best: Mark | None = None
    after = b""  # what follows the best mark, to the end of its line
    for block in blocks:
        start = 0
        while start < len(block) and (rest or (best and not after.endswith(b"\n"))):
            end = min(len(block), rest[0].bytes - position) if rest else len(block)
            part, start = block[start:end], end
            digest.update(part)
            if best and not after.endswith(b"\n"):
                after += part[: part.find(b"\n") + 1 or len(part)]
            while rest and rest[0].bytes == position + end:
                mark = rest.popleft()
                if digest.hexdigest() == mark.hash:
                    best, after = mark, b""
        position += len(block)
        if not rest and (best is None or after.endswith(b"\n")):
            break
    if best is None:
        return None
    return MarkMatch(best, at_end=not after, line_grew=best.end is End.OPEN and bool(after.strip()))


def drop_lines(lines: bytes | memoryview, count: int) -> bytes | memoryview:
    """Drop the first lines."""
    if not count:
        return lines
    return bytes(lines).split(b"\n", count)[count]


def without_trailing_blanks(lines: bytes) -> bytes:
    """Makes an array element the same before a comma and before the end of the array on the next line."""
    while b" \n" in lines:
        lines = lines.replace(b" \n", b"\n")
    return lines


def hash_of_event(line: bytes) -> str:
    """The hash of an event, for comparing files by their first event."""
    return xxhash.xxh3_64(line.strip()).hexdigest()
