"""Memory for bytes on their way from a file or a connection to the journal, which are not copied on it."""

from __future__ import annotations

import mmap
from contextlib import suppress

HUGE_PAGE = 2 << 20  # where the system has them


def allocate(size: int) -> memoryview:
    """Writable memory, which is released with its last view.

    A large one is in huge pages if the system has them: to map 4 MB in small pages takes longer than to fill them. The
    last one is used only if at least half of it is needed.
    """
    huge_bytes = (size + HUGE_PAGE // 2) // HUGE_PAGE * HUGE_PAGE
    if not huge_bytes:
        return memoryview(bytearray(size))
    memory = mmap.mmap(-1, -(-size // HUGE_PAGE) * HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(AttributeError, OSError):
        memory.madvise(mmap.MADV_HUGEPAGE, 0, huge_bytes)
    return memoryview(memory)[:size]
