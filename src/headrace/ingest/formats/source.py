"""A source of bytes whose beginning can be inspected before it is read."""

from __future__ import annotations

import io
from typing import Any, Protocol

import pyarrow as pa

LOOK_BYTES = 64 << 10


class Readable(Protocol):
    """Anything with `read`: a file, a pipe, a decompressor."""

    def read(self, size: int = -1, /) -> bytes | None:
        """At most `size` bytes; none at the end."""


class ByteSource(io.RawIOBase):
    """A readable object, read once from its beginning to its end."""

    def __init__(self, source: Readable | bytes) -> None:
        self._whole = source if isinstance(source, bytes) else None
        self._source: Readable = io.BytesIO(source) if isinstance(source, bytes) else source
        self._ahead = b""

    def seekable_file(self) -> Any:
        """The whole input as a seekable file; None if it can only be read forward."""
        if self._whole is not None:
            return pa.BufferReader(self._whole)
        if isinstance(self._source, io.IOBase) and self._source.seekable():
            self._source.seek(0)
            return self._source
        return None

    def look(self, size: int = LOOK_BYTES) -> bytes:
        """The next `size` bytes, fewer only at the end; `read` still returns them."""
        while len(self._ahead) < size and (block := self._source.read(size - len(self._ahead))):
            self._ahead += block
        return self._ahead[:size]

    def skip(self, size: int) -> None:
        """Skip bytes that `look` returned."""
        self._ahead = self._ahead[size:]

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """At most `size` bytes; none at the end."""
        if size is None or size < 0:
            return self.readall()
        block = self._ahead or self._source.read(size) or b""
        self._ahead = block[size:]  # a decoder may return more than `size`
        return block[:size] if self._ahead else block

    def readinto(self, buffer: Any, /) -> int:
        """Fill as much of a buffer as can be read at once; 0 at the end."""
        if not self._ahead and (readinto := getattr(self._source, "readinto", None)):
            return int(readinto(buffer) or 0)
        block = self.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def read_at_most(self, size: int) -> bytes:
        """The next `size` bytes, fewer only at the end."""
        blocks: list[bytes] = []
        while size > 0 and (block := self.read(min(size, 1 << 20))):
            blocks.append(block)
            size -= len(block)
        return b"".join(blocks)

    def readall(self) -> bytes:
        return self.read_at_most(1 << 62)
