"""Limits on nesting and number of values of one event, checked by both parsers before parsing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.parse.frames import Frames

DEEPEST = 200
MOST_VALUES = 100_000  # of one event, declared or not: bounds the time and memory to read it
_QUOTE = ord('"')
_PIECE_BYTES = 1 << 20  # inspected at once
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_STEP = np.array([_STEPS.get(byte, 0) for byte in range(256)], dtype=np.int8)
_ADDS = np.array([byte in b",[{" for byte in range(256)])
_OTHERS = bytes(byte for byte in range(256) if byte not in b',"[]{}')


def beyond_limits(frames: Frames) -> bool:
    """Whether one of the frames exceeds a limit."""
    lengths = frames.ends - frames.starts
    if not (lengths > DEEPEST).any():
        return False
    first = int(frames.starts[0])
    opens = _STEP[frames.data[first : int(frames.ends[-1])]] > 0
    many: npt.NDArray[np.bool_] = np.add.reduceat(opens, frames.starts - first, dtype=np.int32) > DEEPEST
    return any(not is_small(frame) and over_limit(frame) for frame in frames.take(many | (lengths > MOST_VALUES)))


def is_small(event: bytes) -> bool:
    """Whether an event is certainly within the limits, by a quick count that includes its strings."""
    opens = event.count(b"{") + event.count(b"[")
    return opens <= DEEPEST and (len(event) <= MOST_VALUES or opens + event.count(b",") <= MOST_VALUES)


def over_limit(event: bytes) -> str | None:
    """The limit that an event exceeds, up to where it is JSON; None if it is within the limits."""
    deepest, values = _measure(event)
    if deepest > DEEPEST:
        return f"nested more than {DEEPEST} deep"
    return f"more than {MOST_VALUES:,} values in one event" if values > MOST_VALUES else None


def _measure(event: bytes) -> tuple[int, int]:
    """How deep an event is, and how many commas and opening brackets it has outside of strings; 0 if they are few."""
    if b"\\" in event:
        event = event.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = event.translate(None, _OTHERS)
    depth = deepest = values = within = 0
    for at in range(0, len(marks), _PIECE_BYTES):
        piece = np.frombuffer(marks[at : at + _PIECE_BYTES], dtype=np.uint8)
        texts = (piece == _QUOTE).cumsum(dtype=np.uint8) + np.uint8(within)
        outside = piece[texts & 1 == 0]
        depths = _STEP[outside].cumsum(dtype=np.int32)
        if len(depths):
            deepest = max(deepest, depth + int(depths.max()))
            depth += int(depths[-1])
        if len(marks) > MOST_VALUES:
            values += int(np.count_nonzero(_ADDS[outside]))
        within = int(texts[-1]) & 1
    return deepest, values
