"""The body of a request: read within its limit, and whether it is lines or one JSON value."""

from __future__ import annotations

from starlette.requests import Request

from headrace.web.refusals import TooLargeError

_LINES = {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}


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


def is_ndjson(content_type: str, body: bytes) -> bool:
    """Whether the body is one event per line, by what the client says, else by its looks."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in _LINES:
        return True
    if kind == "application/json":
        return False
    return _looks_like_lines(body)


def _looks_like_lines(body: bytes) -> bool:
    """Whether a first line is a whole object and another line follows it."""
    first, _, rest = body.strip().partition(b"\n")
    line = first.strip()
    return line.startswith(b"{") and line.endswith(b"}") and bool(rest)


def _too_large(size: int, limit: int) -> TooLargeError:
    return TooLargeError(
        "the body is too large",
        found=f"at least {size:,} bytes",
        expected=f"at most {limit:,} bytes (setting max_body_mb)",
        fix="send it in parts; nothing of it was kept",
    )
