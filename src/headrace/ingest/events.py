"""Counts the events of lines, without finding where each of them begins and ends."""

from __future__ import annotations

import numpy as np

from headrace.ingest.counting import NEWLINE, STEP_BYTES, Lines
from headrace.parse.frames import frame

_SPACE = ord(" ")  # no blank line begins with a byte above it


def count_events(stream_format: str, lines: Lines) -> int:
    """The number of lines that are not blank, as `frame` finds them."""
    count = _count_solid_lines(lines)
    return len(frame(stream_format, lines)) if count is None else count


def _count_solid_lines(lines: Lines) -> int | None:
    """The number of lines, if none of them can be blank: each begins with more than a space. Else None."""
    data = np.frombuffer(lines, dtype=np.uint8)
    if not len(data) or data[0] <= _SPACE:
        return None
    count = int(data[-1] != NEWLINE)
    for start in range(0, len(data), STEP_BYTES):
        step = data[start : start + STEP_BYTES]
        ends = step == NEWLINE
        count += int(np.count_nonzero(ends))
        following = data[start + 1 : start + STEP_BYTES + 1]
        if (ends[: len(following)] & (following <= _SPACE)).any():
            return None
    return count
