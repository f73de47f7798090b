"""Kernels of aggregates over Arrow and numpy: hashes of values, and binary values of many rows put together from
columns of numbers.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import xxhash

from headrace.aggregate.aggregate import ArrowFunction, Value
from headrace.aggregate.merges import EXACT
from headrace.lazy import np, pa, pc
from headrace.types import BIGINT, Type

SEED = 42  # Spark's, for xxhash64
SECOND_SEED = xxhash.xxh64_intdigest(struct.pack("<q", 1), seed=SEED)  # it continues with the hash of the first value
_ALL = (1 << 64) - 1
_PRIMES = {  # of xxhash64
    1: 0x9E3779B185EBCA87,
    2: 0xC2B2AE3D27D4EB4F,
    3: 0x165667B19E3779F9,
    4: 0x85EBCA77C2B2AE63,
    5: 0x27D4EB2F165667C5,
}
MURMUR_SEED = 9001  # that of DataSketches
EPOCH = datetime(1970, 1, 1)


def spark_hash(value: Value, of: Type) -> int:
    """Spark's xxhash64 of one value, as a signed 64-bit integer."""
    return _signed(xxhash.xxh64_intdigest(_hashed_bytes(value, of), seed=SEED))


def second_spark_hash(value: Value, of: Type) -> int:
    """Spark's xxhash64(1L, value): another hash of the value, which does not depend on the first."""
    return _signed(xxhash.xxh64_intdigest(_hashed_bytes(value, of), seed=SECOND_SEED))


def _signed(digest: int) -> int:
    return digest - (1 << 64) if digest >> 63 else digest


def spark_hashes(values: pa.Array, of: Type) -> pa.Array:
    """Spark's xxhash64 of each value, computed once for equal ones; NULL for NULL."""
    encoded = pc.dictionary_encode(values)
    if of.name == "STRING":
        digest = xxhash.xxh64_intdigest
        texts = encoded.dictionary.cast(pa.binary()).to_pylist()
        hashes = pa.array(np.array([digest(text, SEED) for text in texts], dtype=np.uint64).view(np.int64))
    else:
        hashes = pa.array([spark_hash(value, of) for value in encoded.dictionary.to_pylist()], pa.int64())
    return hashes.take(encoded.indices)


def hash_function(of: Type) -> ArrowFunction:
    """`spark_hashes` as a function for DuckDB."""
    name = "xxhash64_" + "".join(character if character.isalnum() else "_" for character in str(of).lower())
    return ArrowFunction(name, of, BIGINT, functools.partial(spark_hashes, of=of))


def _hashed_bytes(value: Value, of: Type) -> bytes:
    match of.name:
        case "STRING":
            return str(value).encode()
        case "BOOLEAN" | "INT":
            return struct.pack("<i", value)
        case "DATE":
            assert isinstance(value, date)
            return struct.pack("<i", (value - EPOCH.date()).days)
        case "TIMESTAMP":
            delta = value.replace(tzinfo=None) - EPOCH
            return struct.pack("<q", (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds)
        case "DOUBLE":
            return struct.pack("<d", value + 0.0)
        case "DECIMAL":
            unscaled = int(EXACT.scaleb(Decimal(value), of.scale))
            if of.precision <= 18:
                return struct.pack("<q", unscaled)
            bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
            return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)  # as few bytes as hold its sign, too
        case _:
            return struct.pack("<q", value)


def unhashed_double(digest: int) -> float:
    """The DOUBLE whose `spark_hash` this is: for values of 8 bytes xxhash64 is one to one."""
    bits = digest & _ALL
    bits ^= bits >> 32
    bits = bits * pow(_PRIMES[3], -1, 1 << 64) & _ALL
    bits ^= bits >> 29 ^ bits >> 58
    bits = bits * pow(_PRIMES[2], -1, 1 << 64) & _ALL
    bits ^= bits >> 33
    bits = _rotated((bits - _PRIMES[4]) * pow(_PRIMES[1], -1, 1 << 64) & _ALL, 64 - 27)
    bits ^= SEED + _PRIMES[5] + 8 & _ALL
    bits = _rotated(bits * pow(_PRIMES[1], -1, 1 << 64) & _ALL, 64 - 31)
    bits = bits * pow(_PRIMES[2], -1, 1 << 64) & _ALL
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


def _rotated(bits: int, left: int) -> int:
    return (bits << left | bits >> (64 - left)) & _ALL


def murmur(numbers: Any) -> tuple[Any, Any]:
    """Both halves of MurmurHash3 (x64, 128 bits) of each 64-bit integer of a numpy array."""
    u64 = np.uint64
    mixed = numbers.view(u64) * u64(0x87C37B91114253D5)
    mixed = (mixed << u64(31) | mixed >> u64(33)) * u64(0x4CF5AD432745937F)
    start = u64(MURMUR_SEED ^ 8)  # 8 bytes are hashed
    first = (mixed ^ start) + start
    second = first + start
    first, second = _scrambled(first), _scrambled(second)
    first = first + second
    return first, first + second


def _scrambled(bits: Any) -> Any:
    u64 = np.uint64
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        bits = (bits ^ bits >> u64(33)) * u64(factor)
    return bits ^ bits >> u64(33)


def leading_zeros(bits: Any) -> Any:
    """How many bits are zero before the first that is one, of each 64-bit integer."""
    high, low = bits >> np.uint64(32), bits & np.uint64(0xFFFFFFFF)
    lengths = [np.frexp(half.astype(np.float64))[1] for half in (high, low)]  # exact for 32 bits
    return 64 - np.where(high > 0, lengths[0] + 32, lengths[1])


@dataclass(frozen=True)
class Lists:
    """The lists of an Arrow array that are not empty, one after the other."""

    values: Any  # an Arrow array
    ends: Any  # numpy, one more than there are lists: list i is values[ends[i] : ends[i + 1]]
    filled: Any  # numpy: which rows of the array these are

    @classmethod
    def of(cls, lists: pa.Array) -> Lists:
        """Those of an array of lists."""
        counts = np.diff(np.asarray(lists.offsets, dtype=np.int64))
        filled = counts > 0
        return cls(lists.flatten(), np.concatenate([[0], np.cumsum(counts[filled])]), filled)

    @property
    def counts(self) -> Any:
        """How long each list is."""
        return np.diff(self.ends)

    def counted(self, values: Any) -> tuple[Any, Any, Any]:
        """The different values of each list in order, how often each is there, and their ends.

        `values` are those of all lists, as 32-bit integers without a sign.
        """
        rows = np.repeat(np.arange(len(self.counts), dtype=np.uint64), self.counts)
        keys, counts = np.unique(rows << np.uint64(32) | values, return_counts=True)
        ends = np.searchsorted(keys, np.arange(len(self.counts) + 1, dtype=np.uint64) << np.uint64(32))
        return keys.astype(np.uint32), counts, ends

    def spread(self, rows: pa.Array, is_large: Any, large: Sequence[bytes]) -> pa.Array:
        """A value for each list as a value for each row, NULL where the list is empty.

        Lists that are too large to be written with the others have the values `large`.
        """
        if large:
            rows = pc.replace_with_mask(rows, pa.array(is_large), pa.array(large, pa.binary()))
        if self.filled.all():
            return rows
        return rows.take(pa.array(np.cumsum(self.filled) - 1, mask=~self.filled))


def binary(numbers: Any, width: int, ends: Any = None) -> pa.Array:
    """The bytes of a numpy array as binary values: of `width` bytes each, or of so many of them up to each end."""
    plain = np.ascontiguousarray(numbers)
    at = np.arange(plain.nbytes // width + 1) if ends is None else np.asarray(ends)
    offsets = (at * width).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(plain)])


def unchunked(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values in one piece."""
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def join(*parts: pa.Array) -> pa.Array:
    """The parts of each row, one after the other."""
    return pc.binary_join_element_wise(*parts, b"")
