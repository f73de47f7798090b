"""Limits the memory for request bodies; above the limit, requests get a 429."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import OverloadError

FREE_BYTES = 64 << 10  # a body that fits what a connection buffers anyway is always let in


class Admission:
    """A sum of bytes that stays below its limit. Used by the server's loop only."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held = 0

    @contextmanager
    def claim(self, declared: int) -> Iterator[Claim]:
        """Room for a body, of the length that it declares, for as long as the block runs."""
        claim = Claim(self)
        try:
            claim.grow_to(declared)
            yield claim
        finally:
            self._held -= claim.size

    def take(self, size: int) -> None:
        """Reserve this many more bytes, or refuse."""
        if self._held + size > self._most_bytes:
            raise OverloadError(
                "too many bytes of requests are in flight",
                found=f"{self._held:,} bytes of requests in memory",
                expected=f"at most {self._most_bytes:,} (setting bodies_mb)",
                fix="nothing of this request was stored; try again in a moment",
            )
        self._held += size


class Claim:
    """The room of one body."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.size = 0

    def grow_to(self, size: int) -> None:
        """Make room for a body that has become so long."""
        if size > max(self.size, FREE_BYTES):
            self._admission.take(size - self.size)
            self.size = size
