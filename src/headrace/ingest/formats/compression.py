"""gzip and zstd, decompressed as a stream: the reader bounds the output, not the input."""

from __future__ import annotations

import zlib
from enum import StrEnum
from typing import Any

import pyarrow as pa

from headrace.errors import IngestError
from headrace.ingest.formats.source import ByteSource


class Compression(StrEnum):
    """How bytes are packed, by the names that HTTP gives them."""

    GZIP = "gzip"
    ZSTD = "zstd"


_MAGIC = {Compression.GZIP: b"\x1f\x8b", Compression.ZSTD: b"\x28\xb5\x2f\xfd"}


def compression_of(head: bytes) -> Compression | None:
    """What the first bytes say; names of files often lie."""
    return next((packing for packing, magic in _MAGIC.items() if head.startswith(magic)), None)


class Unpacked:
    """Reads what is packed in a source. Damage is an error that says so."""

    def __init__(self, source: ByteSource, compression: Compression) -> None:
        self._compression = compression
        self._reader: Any = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), compression.value)

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes; none at the end."""
        try:
            return bytes(self._reader.read(size))
        except (OSError, zlib.error, pa.ArrowException) as error:
            raise IngestError(
                f"the {self._compression} data cannot be unpacked",
                found=str(error).partition("\n")[0],
                fix="is it truncated? send the complete data",
            ) from error


def unpack(source: ByteSource) -> ByteSource:
    """The source, unpacked if it is packed."""
    packing = compression_of(source.look(4))
    return ByteSource(Unpacked(source, packing)) if packing else source
