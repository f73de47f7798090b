"""A source of bytes whose beginning can be inspected before it is read; gzip and zstd are decompressed as a stream."""

from __future__ import annotations

import io
import select
import time
import zlib
from enum import StrEnum
from typing import Any, Protocol

from headrace.errors import IngestError
from headrace.lazy import pa

LOOK_BYTES = 64 << 10
LINGER_S = 0.5  # how long lines of a slow pipe wait for others


class ByteInput(Protocol):
    """An input with `read`: a file, a pipe, a decompressor."""

    def read(self, size: int = -1, /) -> bytes | None:
        """Read at most `size` bytes; none at the end."""


class Pipe:
    """Input that arrives while it is read: standard input, a FIFO."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes | None:
        """Read at most `size` bytes, as soon as there are some; none at the end."""
        return self._file.read(size)

    def readinto(self, buffer: Any, /) -> int | None:
        """Fill as much of a buffer as can be read at once; 0 at the end."""
        return self._file.readinto(buffer)

    def is_ready(self, timeout_s: float) -> bool:
        """Return whether more arrives within a time, or the end."""
        try:
            return bool(select.select([self._file], [], [], timeout_s)[0])
        except (OSError, ValueError):  # it is no file of the system: it has all that it will have
            return True


class ByteSource(io.RawIOBase):
    """A readable object, read once from its beginning to its end."""

    def __init__(self, source: ByteInput | bytes) -> None:
        self._whole = source if isinstance(source, bytes) else None
        self._source: ByteInput = io.BytesIO(source) if isinstance(source, bytes) else source
        self._ahead = b""

    def seekable_file(self) -> Any:
        """The whole input as a seekable file; None if it can only be read forward."""
        if self._whole is not None:
            return io.BytesIO(self._whole)
        if isinstance(self._source, io.IOBase) and self._source.seekable():
            self._source.seek(0)
            return self._source
        return None

    def look(self, size: int = LOOK_BYTES, *, linger_s: float | None = None) -> bytes:
        """The next `size` bytes, fewer only at the end; `read` still returns them.

        With `linger_s`, also fewer if there is a complete line and no more has arrived for this long.
        """
        since = time.monotonic()
        while len(self._ahead) < size:
            if linger_s is not None and b"\n" in self._ahead:
                left_s = since + linger_s - time.monotonic()
                if left_s <= 0 or not self._has_more(left_s):
                    break
            block = self._source.read(size - len(self._ahead))
            if not block:
                break
            self._ahead += block
        return self._ahead[:size]

    def is_ready(self, timeout_s: float) -> bool:
        """Return whether more can be read within a time, or the end is reached; only pipes make readers wait."""
        return bool(self._ahead) or self._has_more(timeout_s)

    def _has_more(self, timeout_s: float) -> bool:
        is_ready = getattr(self._source, "is_ready", None)
        return is_ready is None or bool(is_ready(timeout_s))

    def skip(self, size: int) -> None:
        """Skip bytes that `look` returned."""
        self._ahead = self._ahead[size:]

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Read at most `size` bytes; none at the end."""
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


class Compression(StrEnum):
    """A compression of bytes, by its name in HTTP."""

    GZIP = "gzip"
    ZSTD = "zstd"


_MAGIC = {Compression.GZIP: b"\x1f\x8b", Compression.ZSTD: b"\x28\xb5\x2f\xfd"}


def compression_of(head: bytes) -> Compression | None:
    """The compression by the first bytes; the names of files are not reliable."""
    return next((packing for packing, magic in _MAGIC.items() if head.startswith(magic)), None)


class Unpacked:
    """Reads compressed data; damage raises IngestError."""

    def __init__(self, source: ByteSource, compression: Compression) -> None:
        self._compression = compression
        self._damage = (OSError, zlib.error, pa.ArrowException)
        self._reader: Any = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), compression.value)

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes; none at the end."""
        try:
            return bytes(self._reader.read(size))
        except self._damage as error:
            raise IngestError(
                f"the {self._compression} data cannot be unpacked",
                found=str(error).partition("\n")[0],
                fix="it may be truncated; send the complete data",
            ) from error


def unpack(source: ByteSource) -> ByteSource:
    """The source, decompressed if it is compressed."""
    packing = compression_of(source.look(4, linger_s=LINGER_S))
    return ByteSource(Unpacked(source, packing)) if packing else source
