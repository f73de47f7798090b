"""Where each event begins and ends in a buffer of bytes: by offset, never by splitting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]
NEWLINE, COMMA, QUOTE, BACKSLASH = 10, 44, 34, 92
_SPACE = np.zeros(256, dtype=bool)
_SPACE[[9, 10, 11, 12, 13, 32]] = True
_DEPTH = np.zeros(256, dtype=np.int8)
_DEPTH[[ord("["), ord("{")]] = 1
_DEPTH[[ord("]"), ord("}")]] = -1


@dataclass(frozen=True)
class Frames:
    """Events in `data`: the i-th is data[starts[i]:ends[i]], trimmed of white space, never empty."""

    data: npt.NDArray[np.uint8]
    starts: Offsets
    ends: Offsets

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> bytes:
        return self.data[self.starts[index] : self.ends[index]].tobytes()

    def slice(self, start: int, stop: int) -> Frames:
        """Some of the frames, over the same bytes."""
        return Frames(self.data, self.starts[start:stop], self.ends[start:stop])

    def packed(self) -> npt.NDArray[np.uint8]:
        """The bytes of all frames, one after the other."""
        inside = np.zeros(len(self.data) + 1, dtype=np.int8)
        inside[self.starts] += 1
        inside[self.ends] -= 1
        kept: npt.NDArray[np.bool_] = np.cumsum(inside[:-1], dtype=np.int8).astype(bool)
        packed: npt.NDArray[np.uint8] = self.data[kept]
        return packed

    def take(self, keep: npt.NDArray[np.bool_]) -> Frames:
        """The frames where `keep` is true, over the same bytes."""
        return Frames(self.data, self.starts[keep], self.ends[keep])


def frame_lines(buffer: bytes | memoryview) -> Frames:
    """One frame per line that is not blank."""
    data = np.frombuffer(buffer, dtype=np.uint8)
    ends = np.flatnonzero(data == NEWLINE)
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        ends = np.append(ends, len(data))
    starts = np.empty_like(ends)
    if len(ends):
        starts[0] = 0
        starts[1:] = ends[:-1] + 1
    return _trim(data, starts, ends)


def frame_array(buffer: bytes) -> Frames | None:
    """One frame per element of a JSON array; None if the brackets do not close as an array's must.

    What lies between the brackets is not judged here: that is the parser's.
    """
    data = np.frombuffer(buffer, dtype=np.uint8)
    outside = ~_in_string(data)
    depth = np.cumsum(np.where(outside, _DEPTH[data], 0), dtype=np.int32)
    solid = np.flatnonzero(~_SPACE[data])
    if not len(solid) or data[solid[0]] != ord("[") or data[solid[-1]] != ord("]"):
        return None
    first, last = int(solid[0]), int(solid[-1])
    # The first bracket must be open until the last one closes it.
    if depth[last] != 0 or (depth[first:last] < 1).any():
        return None
    commas = np.flatnonzero((data == COMMA) & outside & (depth == 1))
    starts = np.concatenate(([first + 1], commas + 1)).astype(np.int64)
    ends = np.concatenate((commas, [last])).astype(np.int64)
    frames = _trim(data, starts, ends, keep_empty=True)
    return Frames(data, starts[:0], ends[:0]) if len(frames) == 1 and frames.starts[0] == frames.ends[0] else frames


def as_lines(frames: Frames) -> bytes:
    """The events as NDJSON. A line break inside an event, between its tokens, becomes a space."""
    lengths = frames.ends - frames.starts
    total = int(lengths.sum()) + len(frames)
    out = np.empty(total, dtype=np.uint8)
    newlines = np.cumsum(lengths + 1) - 1
    body = np.ones(total, dtype=bool)
    body[newlines] = False
    events = frames.packed()
    out[body] = np.where((events == NEWLINE) | (events == 13), 32, events)
    out[newlines] = NEWLINE
    return out.tobytes()


def _trim(data: npt.NDArray[np.uint8], starts: Offsets, ends: Offsets, *, keep_empty: bool = False) -> Frames:
    starts, ends = starts.copy(), ends.copy()
    while True:
        at = np.flatnonzero(starts < ends)
        at = at[_SPACE[data[starts[at]]]]
        if not len(at):
            break
        starts[at] += 1
    while True:
        at = np.flatnonzero(starts < ends)
        at = at[_SPACE[data[ends[at] - 1]]]
        if not len(at):
            break
        ends[at] -= 1
    if keep_empty:
        return Frames(data, starts, ends)
    solid = starts < ends
    return Frames(data, starts, ends) if solid.all() else Frames(data, starts[solid], ends[solid])


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
