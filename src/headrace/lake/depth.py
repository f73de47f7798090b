"""How deep the objects and arrays of an event lie inside each other: a limit that both parsers keep."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from headrace.lake.frames import Frames

DEEPEST = 200
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_STEP = np.array([_STEPS.get(byte, 0) for byte in range(256)], dtype=np.int8)
_OTHERS = bytes(byte for byte in range(256) if byte not in _STEPS)
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


def too_deep(frames: Frames) -> bool:
    """Whether one of the frames is nested deeper than the limit."""
    if not (frames.ends - frames.starts > DEEPEST).any():
        return False
    first = int(frames.starts[0])
    opens = _STEP[frames.data[first : int(frames.ends[-1])]] > 0
    many: npt.NDArray[np.bool_] = np.add.reduceat(opens, frames.starts - first, dtype=np.int32) > DEEPEST
    return any(is_too_deep(frame) for frame in frames.take(many))


def is_too_deep(event: bytes) -> bool:
    """Whether an event is nested deeper than the limit, up to where it stops being JSON."""
    if event.count(b"{") + event.count(b"[") <= DEEPEST:
        return False
    brackets = np.frombuffer(_TEXT.sub(b"", event).translate(None, _OTHERS), dtype=np.uint8)
    return bool(np.cumsum(_STEP[brackets], dtype=np.int32).max(initial=0) > DEEPEST)
