"""Finds the beginning and the end of each event in a buffer of bytes: by offset, never by splitting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeAlias

from headrace.define.model import JSON, TEXT
from headrace.lazy import np, pa, pc

if TYPE_CHECKING:
    import numpy.typing as npt

Offsets: TypeAlias = "npt.NDArray[np.int64]"
NEWLINE, RETURN, BLANK = 10, 13, 32
STEPS = 4  # white space that is trimmed byte by byte; more of it is stripped frame by frame
_MOST_BYTES = (1 << 31) - 1  # of Arrow's offsets
_SPACE, _RETURNS = b"\t\n\v\f\r ", b"\r"


@dataclass(frozen=True)
class Frames:
    """Parts of `data`: the i-th is data[starts[i]:ends[i]]. Events are framed without their line ends, never blank."""

    data: npt.NDArray[np.uint8]
    starts: Offsets
    ends: Offsets

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> bytes:
        return self.data[self.starts[index] : self.ends[index]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        if len(self):
            first = int(self.starts.min())
            body = self.data[first : int(self.ends.max())].tobytes()
            for start, end in zip((self.starts - first).tolist(), (self.ends - first).tolist(), strict=True):
                yield body[start:end]

    def slice(self, start: int, stop: int) -> Frames:
        """Some of the frames, over the same bytes."""
        return Frames(self.data, self.starts[start:stop], self.ends[start:stop])

    def packed(self) -> npt.NDArray[np.uint8]:
        """The bytes of all frames, one after the other."""
        if not len(self):
            return self.data[:0]
        first = int(self.starts[0])
        body = self.data[first : int(self.ends[-1])]  # not all of `data`: this may be one slice of many
        steps = np.zeros(len(body) + 1, dtype=np.int8)
        steps[self.starts - first] += 1
        steps[self.ends - first] -= 1
        inside: npt.NDArray[np.bool_] = np.cumsum(steps[:-1], dtype=np.int8).astype(bool)
        content: npt.NDArray[np.uint8] = body[inside]
        return content

    def values(self) -> pa.Array:
        """The events' own bytes, as a binary column."""
        return cut(pa.binary(), self.data, self.starts, self.ends)

    def texts(self) -> pa.Array:
        """The frames as strings, which are not checked."""
        return cut(pa.string(), self.data, self.starts, self.ends)

    def take(self, keep: npt.NDArray[np.bool_]) -> Frames:
        """The frames where `keep` is true, over the same bytes."""
        return Frames(self.data, self.starts[keep], self.ends[keep])


def cut(type_: pa.DataType, data: npt.NDArray[np.uint8], starts: Offsets, ends: Offsets) -> pa.Array:
    """The parts of `data` from each start to its end, which ascend, as a column of strings or binaries."""
    if not len(starts):
        return pa.array([], type_)
    first = int(starts[0]) if int(ends[-1]) > _MOST_BYTES else 0
    # Every other value of a column that also has what is between the parts: Arrow copies them faster than NumPy.
    offsets = np.empty((len(starts), 2), dtype=np.int32)
    offsets[:, 0], offsets[:, 1] = (starts - first, ends - first) if first else (starts, ends)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[first : int(ends[-1])])]
    column = pa.Array.from_buffers(type_, 2 * len(starts) - 1, buffers)
    return pc.take(column, _even(len(starts)), boundscheck=False)


@lru_cache(maxsize=8)
def _even(count: int) -> pa.Array:
    return pa.array(np.arange(0, 2 * count, 2, dtype=np.int32))


def frame_values(stream_format: str, values: pa.Array) -> Frames:
    """One frame per event of a column from `Frames.values`."""
    if not len(values):
        return Frames(np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    body, offsets = _buffers(values)
    if stream_format == JSON and ((body == NEWLINE) | (body == RETURN)).any():
        frames = Frames(body, offsets[:-1], offsets[1:])
        body = np.frombuffer(as_lines(frames), dtype=np.uint8)
    else:
        body, _ = _buffers(pc.binary_join_element_wise(values, b"", b"\n"))
    line_ends = offsets[1:] + np.arange(1, len(values) + 1)
    return Frames(body, np.concatenate(([0], line_ends[:-1])), line_ends - 1)


def _buffers(values: pa.Array) -> tuple[npt.NDArray[np.uint8], Offsets]:
    """The bytes of all values, and where each begins in them, and the last ends."""
    _, starts, content = values.buffers()
    offsets = np.frombuffer(memoryview(starts), dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    body = np.frombuffer(memoryview(content), dtype=np.uint8)[offsets[0] : offsets[-1]]
    return body, offsets.astype(np.int64) - offsets[0]


def frame(stream_format: str, buffer: bytes | memoryview) -> Frames:
    """One frame per line that is not blank, in the stream's format."""
    return frame_text(buffer) if stream_format == TEXT else frame_lines(buffer)


def frame_lines(buffer: bytes | memoryview) -> Frames:
    """One frame per line that is not blank, trimmed of white space."""
    return _trim(*_lines(buffer))


def frame_text(buffer: bytes | memoryview) -> Frames:
    """One frame per line that is not blank, with its white space, without its line end.

    All carriage returns before a line feed belong to the line end, so that a framed line that is written
    and framed again is the same line.
    """
    data, starts, ends = _lines(buffer)
    trimmed = _trim(data, starts, ends, keep_empty=True)
    return Frames(data, starts, _cut_back(data, starts, ends, _RETURNS)).take(trimmed.starts < trimmed.ends)


def frame_messages(values: Sequence[bytes], *, trim: bool) -> Frames:
    """One frame per value, also of a blank one, which is an empty frame; values may contain line breaks."""
    data = np.frombuffer(b"\n".join([*values, b""]), dtype=np.uint8)
    ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)) + 1) - 1
    starts = np.empty_like(ends)
    starts[:1], starts[1:] = 0, ends[:-1] + 1
    return _trim(data, starts, ends, keep_empty=True) if trim else Frames(data, starts, ends)


def _lines(buffer: bytes | memoryview) -> tuple[npt.NDArray[np.uint8], Offsets, Offsets]:
    data = np.frombuffer(buffer, dtype=np.uint8)
    ends = np.flatnonzero(data == NEWLINE)
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        ends = np.append(ends, len(data))
    starts = np.empty_like(ends)
    if len(ends):
        starts[0] = 0
        starts[1:] = ends[:-1] + 1
    return data, starts, ends


def as_lines(frames: Frames, stream_format: str = JSON) -> bytes:
    """The events, each on a line. A line break inside a JSON event, between its tokens, becomes a space."""
    lengths = frames.ends - frames.starts
    total = int(lengths.sum()) + len(frames)
    out = np.empty(total, dtype=np.uint8)
    newlines = np.cumsum(lengths + 1) - 1
    body = np.ones(total, dtype=bool)
    body[newlines] = False
    events = frames.packed()
    out[body] = events if stream_format == TEXT else np.where((events == NEWLINE) | (events == RETURN), 32, events)
    out[newlines] = NEWLINE
    return out.tobytes()


@cache
def _one_of(characters: bytes) -> npt.NDArray[np.bool_]:
    """Mark the bytes that are one of these."""
    are = np.zeros(256, dtype=bool)
    are[list(characters)] = True
    return are


def _trim(data: npt.NDArray[np.uint8], starts: Offsets, ends: Offsets, *, keep_empty: bool = False) -> Frames:
    new_starts = _cut_front(data, starts, ends, _SPACE)
    new_ends = _cut_back(data, new_starts, ends, _SPACE)
    frames = Frames(data, new_starts, new_ends)
    if keep_empty or (new_starts is starts and new_ends is ends):  # a blank line begins with white space
        return frames
    return frames.take(new_starts < new_ends)


def _cut_front(data: npt.NDArray[np.uint8], starts: Offsets, ends: Offsets, characters: bytes) -> Offsets:
    """Move each start after the bytes that are `characters`; the same array if none moves."""
    at = np.flatnonzero(data[starts] <= BLANK)
    if not len(at):
        return starts
    starts, space = starts.copy(), _one_of(characters)
    for _ in range(STEPS):
        at = at[starts[at] < ends[at]]
        at = at[space[data[starts[at]]]]
        if not len(at):
            return starts
        starts[at] += 1
    for index in at.tolist():
        event = data[starts[index] : ends[index]].tobytes()
        starts[index] += len(event) - len(event.lstrip(characters))
    return starts


def _cut_back(data: npt.NDArray[np.uint8], starts: Offsets, ends: Offsets, characters: bytes) -> Offsets:
    """Move each end before the bytes that are `characters`; the same array if none moves."""
    at = np.flatnonzero(data[ends - 1] <= BLANK)
    if not len(at):
        return ends
    ends, space = ends.copy(), _one_of(characters)
    for _ in range(STEPS):
        at = at[starts[at] < ends[at]]
        at = at[space[data[ends[at] - 1]]]
        if not len(at):
            return ends
        ends[at] -= 1
    for index in at.tolist():
        event = data[starts[index] : ends[index]].tobytes()
        ends[index] -= len(event) - len(event.rstrip(characters))
    return ends
