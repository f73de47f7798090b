"""gzip and zstd, decompressed as a stream: the reader bounds the output, not the input."""

from __future__ import annotations

import zlib
from enum import StrEnum
from typing import Any

from headrace.errors import IngestError
from headrace.ingest.formats.source import LINGER_S, ByteSource


class Compression(StrEnum):
    """How bytes are compressed, by the names of HTTP."""

    GZIP = "gzip"
    ZSTD = "zstd"


_MAGIC = {Compression.GZIP: b"\x1f\x8b", Compression.ZSTD: b"\x28\xb5\x2f\xfd"}


def compression_of(head: bytes) -> Compression | None:
    """By the first bytes; the names of files are not reliable."""
    return next((packing for packing, magic in _MAGIC.items() if head.startswith(magic)), None)


class Unpacked:
    """Reads compressed data; damage raises IngestError."""

    def __init__(self, source: ByteSource, compression: Compression) -> None:
        import pyarrow as pa  # takes 0.1 s to import, and few files are compressed

        self._compression = compression
        self._damage = (OSError, zlib.error, pa.ArrowException)
        self._reader: Any = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), compression.value)

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes; none at the end."""
        try:
            return bytes(self._reader.read(size))
        except self._damage as error:
            raise IngestError(
                f"the {self._compression} data cannot be unpacked",
                found=str(error).partition("\n")[0],
                fix="is it truncated? send the complete data",
            ) from error


def unpack(source: ByteSource) -> ByteSource:
    """The source, decompressed if it is compressed."""
    packing = compression_of(source.look(4, linger_s=LINGER_S))
    return ByteSource(Unpacked(source, packing)) if packing else source
