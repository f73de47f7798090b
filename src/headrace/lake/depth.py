"""How deep the objects and arrays of an event lie inside each other: a limit that both parsers keep."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.lake.frames import Frames

DEEPEST = 200
QUOTE, BACKSLASH = 34, 92
_DEPTH = np.zeros(256, dtype=np.int8)
_DEPTH[[ord("["), ord("{")]] = 1
_DEPTH[[ord("]"), ord("}")]] = -1


def depths_above(frames: Frames, limit: int = DEEPEST) -> npt.NDArray[np.bool_]:
    """Whether the objects and arrays of each frame lie deeper inside each other than the limit."""
    above = np.zeros(len(frames), dtype=bool)
    long = np.flatnonzero(frames.ends - frames.starts > limit)
    if not len(long):
        return above
    opens = np.concatenate(([0], np.cumsum(_DEPTH[frames.data] > 0)))
    for index in long[opens[frames.ends[long]] - opens[frames.starts[long]] > limit].tolist():
        event = frames.data[frames.starts[index] : frames.ends[index]]
        depth = np.cumsum(np.where(_in_string(event), 0, _DEPTH[event]), dtype=np.int32)
        above[index] = depth.max() > limit
    return above


def _in_string(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Whether each byte lies in a JSON string (its opening quote included, its closing one not)."""
    quotes = data == QUOTE
    slashes = np.flatnonzero(data == BACKSLASH)
    if len(slashes):
        # A quote behind an odd run of backslashes is escaped.
        run_starts = np.concatenate(([True], np.diff(slashes) != 1))
        run_first = slashes[run_starts]
        run_length = np.diff(np.append(np.flatnonzero(run_starts), len(slashes)))
        behind = (run_first + run_length)[run_length % 2 == 1]
        quotes = quotes.copy()
        quotes[behind[behind < len(data)]] = False
    return (np.cumsum(quotes, dtype=np.int32) & 1).astype(bool)
