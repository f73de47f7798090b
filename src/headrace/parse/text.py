"""Reads lines of text: an event is the STRING of its own bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.parse.frames import Frames

_BEYOND_ASCII = 0x80


def read_text(frames: Frames) -> tuple[pa.Array, pa.Array | None]:
    """The lines, NULL where one is not UTF-8, and the reasons for that. None: all are good."""
    values = frames.values().view(pa.string())
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return _judged(frames)
    return values, None


def _judged(frames: Frames) -> tuple[pa.Array, pa.Array]:
    reasons: list[str | None] = [None] * len(frames)
    beyond = np.maximum.reduceat(frames.data, frames.starts) >= _BEYOND_ASCII
    for index in np.flatnonzero(beyond).tolist():
        try:
            frames[index].decode()
        except UnicodeDecodeError as error:
            reasons[index] = f"not UTF-8 at byte {error.start}"
    bad = np.array([reason is not None for reason in reasons])
    lengths = np.where(bad, 0, frames.ends - frames.starts)
    good = Frames(frames.data, frames.starts, frames.starts + lengths)
    nulls = pa.array(~bad)
    values = good.values()
    return (
        pa.Array.from_buffers(pa.string(), len(frames), [nulls.buffers()[1], *values.buffers()[1:]]),
        pa.array(reasons, pa.string()),
    )
