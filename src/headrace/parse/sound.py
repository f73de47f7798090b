"""Checks of whole blocks and columns that the parsers of many events share."""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]
# Python values: the first Arrow scalar loads pandas, a fifth of the time of commands that do not need it.
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

# Of bytes, not of characters.
_UTF8 = (
    r"\A(?:[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|(?:\xe0[\xa0-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]|\xed[\x80-\x9f])[\x80-\xbf]"
    r"|(?:\xf0[\x90-\xbf]|[\xf1-\xf3][\x80-\xbf]|\xf4[\x80-\x8f])[\x80-\xbf]{2})*\z"
)


def is_utf8(block: npt.NDArray[np.uint8]) -> bool:
    """Whether the bytes are UTF-8."""
    offsets = pa.py_buffer(np.array([0, len(block)], dtype=np.int32))
    return are_all_utf8(pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(block)]))


def are_all_utf8(texts: pa.Array) -> bool:
    """Whether each value of a column of strings is UTF-8."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def are_utf8(values: pa.Array) -> Mask:
    """Which values of a binary column are UTF-8."""
    mask: Mask = pc.match_substring_regex(values, _UTF8).to_numpy(zero_copy_only=False)
    return mask


def is_sound(values: pa.Array) -> bool:
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
