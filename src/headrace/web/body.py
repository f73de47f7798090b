"""The body of a request: admits, reads and decompresses it within limits, and determines its format."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from headrace.errors import HeadraceError, OverloadError, RequestError, SlowError, TooLargeError, UnsupportedError
from headrace.ingest.formats.byte_source import ByteSource, Compression, Unpacked
from headrace.ingest.formats.format_detection import FileLayout, Format, make_layout
from headrace.transport.sent_files import FilePiece
from headrace.web.meter import BODY_BYTES
from headrace.web.protocol import RECEIVE_BODY, BodyReceiver

FREE_BYTES = 64 << 10  # a body that fits in a connection's buffer is always admitted


class BodyAdmission:
    """A sum of bytes that stays below its limit. Used by the server's loop only."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._used_bytes = 0

    @contextmanager
    def claim(self, declared: int) -> Iterator[BodyClaim]:
        """Reserve memory for a body of the declared length while the block runs."""
        claim = BodyClaim(self)
        try:
            claim.grow_to(declared)
            yield claim
        finally:
            self._used_bytes -= claim.size

    def take(self, size: int) -> None:
        """Reserve this many more bytes, or refuse."""
        if self._used_bytes + size > self._most_bytes:
            raise OverloadError(
                "too many bytes of requests are in flight",
                found=f"{self._used_bytes:,} bytes of requests in memory",
                expected=f"at most {self._most_bytes:,} (setting bodies_mb)",
                fix="nothing of this request was stored; try again in a moment",
            )
        self._used_bytes += size


class BodyClaim:
    """The memory reserved for one body."""

    def __init__(self, admission: BodyAdmission) -> None:
        self._admission = admission
        self.size = 0

    def grow_to(self, size: int) -> None:
        """Reserve memory for a body that has grown to this size."""
        if size > max(self.size, FREE_BYTES):
            self._admission.take(size - self.size)
            self.size = size


BLOCK_BYTES = 1 << 20
SLOWEST_BYTES_PER_S = 64 << 10
LONGEST_MARK = 200

CONTENT_TYPES: dict[str, Format | None] = {
    "application/json": Format.JSON,
    "application/x-ndjson": Format.NDJSON,
    "application/ndjson": Format.NDJSON,
    "application/jsonl": Format.NDJSON,
    "application/x-jsonlines": Format.NDJSON,
    "text/csv": Format.CSV,
    "text/tab-separated-values": Format.CSV,
    "application/vnd.apache.parquet": Format.PARQUET,
    # Defaults of clients that state no format: it is detected from the content.
    "": None,
    "text/plain": None,
    "application/octet-stream": None,
    "application/x-www-form-urlencoded": None,
}
_ACCEPTABLE = "application/json, application/x-ndjson, text/csv, application/vnd.apache.parquet, text/plain"
_COMPRESSIONS = {"gzip": Compression.GZIP, "x-gzip": Compression.GZIP, "zstd": Compression.ZSTD}


def read_layout(request: Request) -> FileLayout:
    """The format that the request states."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in CONTENT_TYPES:
        raise UnsupportedError(f"content type '{kind}' is not supported", expected=_ACCEPTABLE)
    parameters = request.query_params
    return make_layout(CONTENT_TYPES[kind], parameters.get("delimiter"), parameters.get("fields"))


def read_file_piece(request: Request) -> FilePiece | None:
    """The piece of a file that the request contains, if its header says so."""
    text = request.headers.get("headrace-file")
    if text is None:
        return None
    try:
        fields = orjson.loads(text)
        piece = FilePiece.of(fields)
    except (orjson.JSONDecodeError, TypeError, KeyError) as error:
        raise RequestError(
            "header 'Headrace-File' is not a piece of a file", found=text[:80], expected='{"name": …, "mark": …, …}'
        ) from error
    kinds = {"name": str, "mark": str, "after": str, "seen": int, "first": str, "start": bool}
    wrong = next((name for name, kind in kinds.items() if not isinstance(getattr(piece, name), kind)), None)
    if (
        wrong
        or not piece.name
        or not piece.mark
        or max(map(len, (piece.mark, piece.after, piece.first))) > LONGEST_MARK
    ):
        raise RequestError(
            "header 'Headrace-File' is not a piece of a file",
            found=f"'{wrong or 'mark'}' of another kind or length",
            expected=f"a name, and marks of at most {LONGEST_MARK} characters",
        )
    return piece


def read_compression(request: Request) -> Compression | None:
    """Compression of the body."""
    kind = request.headers.get("content-encoding", "").strip().lower()
    if kind in ("", "identity"):
        return None
    if kind not in _COMPRESSIONS:
        raise UnsupportedError(f"content encoding '{kind}' is not supported", expected="gzip, zstd or none")
    return _COMPRESSIONS[kind]


async def read_body(request: Request, limit: int, claim: BodyClaim | None = None) -> bytes:
    """The whole body; refused as soon as it is too large or too slow, before all of it is in memory."""
    declared = declared_bytes(request)
    if declared > limit:
        raise _too_large(declared, limit)
    chunks: list[bytes] = []
    size, more = 0, True
    pace = _Pace(request)
    try:
        async with asyncio.timeout_at(pace.deadline_s(size)) as timeout:
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                chunk, more = message.get("body", b""), message.get("more_body", False)
                size += len(chunk)
                if size > limit:
                    raise _too_large(size, limit)
                if claim:
                    claim.grow_to(size)
                chunks.append(chunk)
                if more:
                    timeout.reschedule(pace.deadline_s(size))
    except TimeoutError as error:
        raise pace.too_slow(size) from error
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def receive_body(request: Request, limit: int) -> memoryview | None:
    """The whole body, received without copies; None if it cannot be: then nothing of it was read."""
    receive, size = request.scope.get(RECEIVE_BODY), declared_bytes(request)
    receiver: BodyReceiver | None = receive(size) if receive and 0 < size <= limit else None
    if receiver is None:
        return None
    pace = _Pace(request)
    try:
        while (body := await receiver.wait(pace.left_s(receiver.received))) is None:
            if pace.left_s(receiver.received) <= 0:
                raise pace.too_slow(receiver.received)
        request.scope[BODY_BYTES] = size
        return body
    finally:
        receiver.stop()


class _Pace:
    """How fast a body must arrive."""

    def __init__(self, request: Request) -> None:
        self._loop = asyncio.get_running_loop()
        self._start_s = self._loop.time()
        self._grace_s: float = request.app.state.timeouts.body_s

    def deadline_s(self, size: int) -> float:
        """Until when more than these bytes must have arrived, in the time of the loop."""
        return self._start_s + self._grace_s + size / SLOWEST_BYTES_PER_S

    def left_s(self, size: int) -> float:
        """How long that is from now."""
        return self.deadline_s(size) - self._loop.time()

    def too_slow(self, size: int) -> SlowError:
        return SlowError(
            "the body is sent too slowly",
            found=f"{size:,} bytes in {self._grace_s + size / SLOWEST_BYTES_PER_S:.0f} s",
            expected=f"{SLOWEST_BYTES_PER_S >> 10} kB a second, after {self._grace_s:g} s of grace",
            fix="send smaller bodies; nothing was stored",
        )


def declared_bytes(request: Request) -> int:
    """The length that the request states; 0 if it states none."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isdigit() else 0


def unpack_body(body: bytes, compression: Compression, limit: int) -> bytes:
    """The decompressed body; refused as soon as the decompressed part exceeds the limit."""
    reader = Unpacked(ByteSource(body), compression)
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
        fix="send it in parts; nothing was stored",
    )


def read_object(body: bytes, refuse: type[HeadraceError], example: Any) -> dict[str, Any]:
    """A body that is one JSON object (an empty body is an empty object); anything else is refused, with an example."""
    expected = f"such as {orjson.dumps(example).decode()}"
    try:
        value = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise refuse(f"the body is not JSON: {error}", expected=expected) from error
    if not isinstance(value, dict):
        raise refuse("the body is not a JSON object", expected=expected)
    return value
