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

import numpy as np
import xxhash

from headrace.ingest.formats.source import Readable


class End(StrEnum):
    """What a mark's last line is."""

    WITHIN = ""  # one of the midst of the file
    WHOLE = "w"  # the last of the file
    OPEN = "o"  # the last of the file, without a line end: more of it may come


@dataclass(frozen=True)
class Mark:
    """The reading position: after `lines` lines, which were made from at most the first `bytes` bytes."""

    lines: int
    bytes: int
    hash: str
    end: End = End.WITHIN

    def __str__(self) -> str:
        return f"{self.lines}.{self.bytes}.{self.hash}.{self.end}"

    @classmethod
    def read(cls, text: str) -> Mark | None:
        """From its text; None if it is of another kind."""
        try:
            lines, size, digest, end = text.split(".")
            return cls(int(lines), int(size), digest, End(end))
        except ValueError:
            return None

    def before(self, lines: int) -> Mark:
        """The same, so many lines earlier: the bytes that were read for them are enough."""
        return replace(self, lines=self.lines - lines, end=End.WITHIN) if lines else self


class Content:
    """The bytes that were read so far. Arrow reads ahead in a thread of its own, so marks are made under a lock."""

    def __init__(self, *, blank_counts: bool = False) -> None:
        self._bytes = 0
        self._hash = xxhash.xxh3_128()
        self._open = False  # the last line has no end yet
        self._blank_counts = blank_counts  # a line of spaces is an event, if not a good one
        self._lock = threading.Lock()

    def add(self, block: bytes) -> None:
        """More was read."""
        with self._lock:
            self._bytes += len(block)
            self._hash.update(block)
            cut = block.rfind(b"\n") + 1
            rest = block[cut:] if self._blank_counts else block[cut:].strip()
            self._open = bool(rest) or (self._open and not cut)

    def mark(self, lines: int, *, ended: bool) -> Mark:
        """Where reading stands."""
        with self._lock:
            end = End.WITHIN if not ended else End.OPEN if self._open else End.WHOLE
            return Mark(lines, self._bytes, self._hash.hexdigest(), end)


class Hashed:
    """Reads from a source and has the content know of it."""

    def __init__(self, source: Readable, content: Content) -> None:
        self._source = source
        self._content = content

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes; none at the end."""
        block = self._source.read(size) or b""
        self._content.add(block)
        return block


@dataclass(frozen=True)
class Match:
    """A mark that fits a file, and whether there is more behind it."""

    mark: Mark
    at_end: bool
    line_went_on: bool = False  # its last line had no end, and is a longer one now

    @property
    def lines(self) -> int:
        """How many lines need not be sent."""
        return self.mark.lines - self.line_went_on

    @property
    def nothing_new(self) -> bool:
        return self.at_end and self.mark.end is not End.WITHIN


def best_match(blocks: Iterable[bytes], marks: Iterable[Mark]) -> Match | None:
    """The furthest of the marks whose bytes are those that the blocks begin with."""
    waiting = deque(sorted(set(marks), key=lambda mark: (mark.bytes, mark.lines)))
    digest, position = xxhash.xxh3_128(), 0
    best: Mark | None = None
    behind = b""  # what follows the best one, to the end of its line
    for block in blocks:
        start = 0
        while start < len(block) and (waiting or (best and not behind.endswith(b"\n"))):
            end = min(len(block), waiting[0].bytes - position) if waiting else len(block)
            part, start = block[start:end], end
            digest.update(part)
            if best and not behind.endswith(b"\n"):
                behind += part[: part.find(b"\n") + 1 or len(part)]
            while waiting and waiting[0].bytes == position + end:
                mark = waiting.popleft()
                if digest.hexdigest() == mark.hash:
                    best, behind = mark, b""
        position += len(block)
        if not waiting and (best is None or behind.endswith(b"\n")):
            break
    if best is None:
        return None
    return Match(best, at_end=not behind, line_went_on=best.end is End.OPEN and bool(behind.strip()))


def drop_lines(lines: bytes, count: int) -> bytes:
    """Without the first lines."""
    ends = np.flatnonzero(np.frombuffer(lines, dtype=np.uint8) == ord("\n"))
    return lines[int(ends[count - 1]) + 1 :] if count else lines


def without_trailing_blanks(lines: bytes) -> bytes:
    """The same whether an element of an array was followed by a comma or, on the next line, by the array's end."""
    while b" \n" in lines:
        lines = lines.replace(b" \n", b"\n")
    return lines


def hash_of_event(line: bytes) -> str:
    """What stands for an event when files are compared by their first one."""
    return xxhash.xxh3_64(line.strip()).hexdigest()
