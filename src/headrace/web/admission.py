"""Limits the memory for request bodies; above the limit, requests get a 429."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import OverloadError

FREE_BYTES = 64 << 10  # a body that fits in a connection's buffer is always admitted


class Admission:
    """A sum of bytes that stays below its limit. Used by the server's loop only."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._used_bytes = 0

    @contextmanager
    def claim(self, declared: int) -> Iterator[Claim]:
        """Reserve memory for a body of the declared length while the block runs."""
        claim = Claim(self)
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


class Claim:
    """The memory reserved for one body."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.size = 0

    def grow_to(self, size: int) -> None:
        """Reserve memory for a body that has grown to this size."""
        if size > max(self.size, FREE_BYTES):
            self._admission.take(size - self.size)
            self.size = size
