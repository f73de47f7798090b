"""The body of a request: read within its limit, unpacked within its limit, and what format it says it has."""

from __future__ import annotations

import io

from starlette.requests import Request

from headrace.errors import TooLargeError
from headrace.lake.formats.compression import Compression, Unpacked
from headrace.lake.formats.layout import Format, Layout, make_layout
from headrace.lake.formats.source import Source
from headrace.web.refusals import UnsupportedError

BLOCK_BYTES = 1 << 20

CONTENT_TYPES: dict[str, Format | None] = {
    "application/json": Format.JSON,
    "application/x-ndjson": Format.NDJSON,
    "application/ndjson": Format.NDJSON,
    "application/jsonl": Format.NDJSON,
    "application/x-jsonlines": Format.NDJSON,
    "text/csv": Format.CSV,
    "text/tab-separated-values": Format.CSV,
    "application/vnd.apache.parquet": Format.PARQUET,
    # What clients say who say nothing: the looks decide.
    "": None,
    "text/plain": None,
    "application/octet-stream": None,
    "application/x-www-form-urlencoded": None,
}
_TAKEN = "application/json, application/x-ndjson, text/csv, application/vnd.apache.parquet, text/plain"
_COMPRESSIONS = {"gzip": Compression.GZIP, "x-gzip": Compression.GZIP, "zstd": Compression.ZSTD}


def read_layout(request: Request) -> Layout:
    """The format that the request states."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in CONTENT_TYPES:
        raise UnsupportedError(f"content type '{kind}' is not taken", expected=_TAKEN)
    asked = request.query_params
    return make_layout(CONTENT_TYPES[kind], asked.get("delimiter"), asked.get("fields"))


def read_compression(request: Request) -> Compression | None:
    """How the body is packed."""
    kind = request.headers.get("content-encoding", "").strip().lower()
    if kind in ("", "identity"):
        return None
    if kind not in _COMPRESSIONS:
        raise UnsupportedError(f"content encoding '{kind}' is not taken", expected="gzip, zstd or none")
    return _COMPRESSIONS[kind]


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body; refused as soon as it is known to be too large, not when it is all in memory."""
    declared = request.headers.get("content-length")
    if declared and declared.isdigit() and int(declared) > limit:
        raise _too_large(int(declared), limit)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise _too_large(size, limit)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def unpack_body(body: bytes, compression: Compression, limit: int) -> bytes:
    """What is packed in the body; refused when one block too many has come out, whatever is left in it."""
    reader = Unpacked(Source(body), compression)
    unpacked = io.BytesIO()
    while block := reader.read(BLOCK_BYTES):
        if unpacked.tell() + len(block) > limit:
            raise _too_large(unpacked.tell() + len(block), limit)
        unpacked.write(block)
    return unpacked.getvalue()


def _too_large(size: int, limit: int) -> TooLargeError:
    return TooLargeError(
        "the body is too large",
        found=f"at least {size:,} bytes",
        expected=f"at most {limit:,} bytes (setting max_body_mb)",
        fix="send it in parts; nothing of it was kept",
    )
