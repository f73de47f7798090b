"""Pins: which version of each table a commit saw. A version is how many commits the lake of its changes had.

The driver chooses them before the workers run, and every row of the commit contains them: so a build, a restart and
the other lane join events to the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.arrow import np, pa

Pins = Mapping[str, int]  # by the stream that holds the changes of a table
ChoosePins = Callable[[], Pins]


def pins_type() -> pa.DataType:
    """The type of the column that has them."""
    return pa.map_(pa.string(), pa.int64())


def no_pins() -> Pins:
    """Of a workspace without tables."""
    return {}


def pin_column(pins: Pins, count: int) -> pa.Array:
    """A column with these pins in every row; NULL if there are none."""
    if not pins:
        return pa.nulls(count, pins_type())
    width = len(pins)
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    names = pa.array(pins, pa.string()).take(pa.array(np.tile(np.arange(width), count)))
    versions = np.tile(np.fromiter(pins.values(), dtype=np.int64), count)
    return pa.MapArray.from_arrays(pa.array(offsets), names, pa.array(versions))
