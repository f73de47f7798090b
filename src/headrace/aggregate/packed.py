"""Binary values of many rows at once, put together from columns of numbers: how sketches are written without a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Lists:
    """The lists of an Arrow array that are not empty, one after the other."""

    values: Any  # an Arrow array
    ends: Any  # numpy, one more than there are lists: list i is values[ends[i] : ends[i + 1]]
    filled: Any  # numpy: which rows of the array these are

    @classmethod
    def of(cls, lists: pa.Array) -> Lists:
        """Those of an array of lists."""
        import numpy as np  # takes 0.1 s to import: not for definitions

        counts = np.diff(np.asarray(lists.offsets, dtype=np.int64))
        filled = counts > 0
        return cls(lists.flatten(), np.concatenate([[0], np.cumsum(counts[filled])]), filled)

    @property
    def counts(self) -> Any:
        """How long each list is."""
        import numpy as np  # not for definitions: it takes 0.1 s to import

        return np.diff(self.ends)

    def counted(self, values: Any) -> tuple[Any, Any, Any]:
        """The different values of each list in order, how often each is there, and their ends.

        `values` are those of all lists, as 32-bit integers without a sign.
        """
        import numpy as np  # not for definitions: it takes 0.1 s to import

        rows = np.repeat(np.arange(len(self.counts), dtype=np.uint64), self.counts)
        keys, counts = np.unique(rows << np.uint64(32) | values, return_counts=True)
        ends = np.searchsorted(keys, np.arange(len(self.counts) + 1, dtype=np.uint64) << np.uint64(32))
        return keys.astype(np.uint32), counts, ends

    def spread(self, rows: pa.Array, is_large: Any, large: Sequence[bytes]) -> pa.Array:
        """A value for each list as a value for each row, NULL where the list is empty.

        Lists that are too large to be written with the others have the values `large`.
        """
        import numpy as np  # not for definitions: it takes 0.1 s to import
        import pyarrow as pa  # not for definitions: it takes 0.1 s to import
        import pyarrow.compute as pc  # not for definitions: it takes 0.1 s to import

        if large:
            rows = pc.replace_with_mask(rows, pa.array(is_large), pa.array(large, pa.binary()))
        if self.filled.all():
            return rows
        return rows.take(pa.array(np.cumsum(self.filled) - 1, mask=~self.filled))


def binary(numbers: Any, width: int, ends: Any = None) -> pa.Array:
    """The bytes of a numpy array as binary values: of `width` bytes each, or of so many of them up to each end."""
    import numpy as np  # not for definitions: it takes 0.1 s to import
    import pyarrow as pa  # not for definitions: it takes 0.1 s to import

    plain = np.ascontiguousarray(numbers)
    at = np.arange(plain.nbytes // width + 1) if ends is None else np.asarray(ends)
    offsets = (at * width).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(plain)])


def unchunked(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values in one piece."""
    import pyarrow as pa  # not for definitions: it takes 0.1 s to import

    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def join(*parts: pa.Array) -> pa.Array:
    """The parts of each row, one after the other."""
    import pyarrow.compute as pc  # not for definitions: it takes 0.1 s to import

    return pc.binary_join_element_wise(*parts, b"")
