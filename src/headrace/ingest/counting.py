"""Counts lines and events, without finding where each of them begins and ends."""

from __future__ import annotations

import numpy as np

from headrace.parse.frames import NEWLINE, frame

TAIL_BYTES = 64 << 10
STEP_BYTES = 128 << 10  # what is compared at once stays in the processor's cache
_SPACE = ord(" ")  # no blank line begins with a byte above it

Lines = bytes | memoryview


def count_newlines(lines: Lines) -> int:
    """The number of line ends: what `bytes.count` would return, in half of its time."""
    data = np.frombuffer(lines, dtype=np.uint8)
    steps = (data[start : start + STEP_BYTES] for start in range(0, len(data), STEP_BYTES))
    return sum(int(np.count_nonzero(step == NEWLINE)) for step in steps)


def end_of_lines(lines: Lines) -> int:
    """Where the last complete line ends; 0 if there is none."""
    start = max(0, len(lines) - TAIL_BYTES)
    end = bytes(lines[start:]).rfind(b"\n") + 1
    return start + end if end else bytes(lines[:start]).rfind(b"\n") + 1


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
