"""Checks of whole blocks and columns that several parsers share: nesting, number of values, valid text."""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
    """Return whether one of the frames exceeds a limit."""
    lengths = frames.ends - frames.starts
    if not (lengths > DEEPEST).any():
        return False
    first = int(frames.starts[0])
    opens = _STEP[frames.data[first : int(frames.ends[-1])]] > 0
    many: npt.NDArray[np.bool_] = np.add.reduceat(opens, frames.starts - first, dtype=np.int32) > DEEPEST
    return any(not is_small(frame) and over_limit(frame) for frame in frames.take(many | (lengths > MOST_VALUES)))


def is_small(event: bytes) -> bool:
    """Return whether an event is certainly within the limits, by a quick count that includes its strings."""
    opens = event.count(b"{") + event.count(b"[")
    return opens <= DEEPEST and (len(event) <= MOST_VALUES or opens + event.count(b",") <= MOST_VALUES)


def over_limit(event: bytes) -> str | None:
    """The limit that an event exceeds, up to where it is JSON; None if it is within the limits."""
    deepest, values = _measure(event)
    if deepest > DEEPEST:
        return f"nested more than {DEEPEST} deep"
    return f"more than {MOST_VALUES:,} values in one event" if values > MOST_VALUES else None


def _measure(event: bytes) -> tuple[int, int]:
    """The depth of an event, and the commas and opening brackets outside of its strings; 0 if they are few."""
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


Mask = npt.NDArray[np.bool_]
# Python values: the first Arrow scalar loads pandas, a fifth of the time of commands that do not need it.
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

# Of bytes, not of characters.
_UTF8 = (
    r"\A(?:[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|(?:\xe0[\xa0-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]|\xed[\x80-\x9f])[\x80-\xbf]"
    r"|(?:\xf0[\x90-\xbf]|[\xf1-\xf3][\x80-\xbf]|\xf4[\x80-\x8f])[\x80-\xbf]{2})*\z"
)


def is_utf8(block: npt.NDArray[np.uint8]) -> bool:
    """Return whether the bytes are UTF-8."""
    offsets = pa.py_buffer(np.array([0, len(block)], dtype=np.int32))
    return are_all_utf8(pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(block)]))


def are_all_utf8(texts: pa.Array) -> bool:
    """Return whether each value of a column of strings is UTF-8."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def are_utf8(values: pa.Array) -> Mask:
    """Mark the values of a binary column that are UTF-8."""
    mask: Mask = pc.match_substring_regex(values, _UTF8).to_numpy(zero_copy_only=False)
    return mask


def is_valid(values: pa.Array) -> bool:
    """JSON has no NaN and no infinity, though pyarrow reads them; a year has four digits and is not 0."""
    if pa.types.is_floating(values.type):
        return pc.all(pc.is_finite(values)).as_py() is not False
    if pa.types.is_timestamp(values.type):
        return _within(values, _EARLIEST, _LATEST)
    return _within(values, date.min, date.max) if pa.types.is_date32(values.type) else True


def _within(values: pa.Array, least: date, most: date) -> bool:
    bounds = pc.min_max(values)
    if not bounds["min"].is_valid:
        return True
    low, high = bounds["min"].value, bounds["max"].value
    return bool(_number(least, values.type) <= low and high <= _number(most, values.type))


@cache
def _number(time: date, type_: pa.DataType) -> int:
    """The number that Arrow has for a time."""
    number: int = pa.scalar(time, type_).value
    return number
