"""Checks of whole blocks and columns that the parsers of many events share."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# Python values: the first Arrow scalar loads pandas, a fifth of the time of commands that do not need it.
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def is_utf8(block: npt.NDArray[np.uint8]) -> bool:
    """Whether the bytes are UTF-8."""
    offsets = pa.py_buffer(np.array([0, len(block)], dtype=np.int32))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(block)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


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
    low, high = (pa.scalar(bound, values.type) for bound in (least, most))
    return bool(pc.and_(pc.greater_equal(bounds["min"], low), pc.less_equal(bounds["max"], high)).as_py())
