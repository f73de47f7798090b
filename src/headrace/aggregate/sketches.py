"""Approximate aggregates: small sketches that merge and state their error."""

from __future__ import annotations

import functools
import itertools
import struct
from collections import deque
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import xxhash

from headrace.aggregate.base import Aggregate, Example, Function, Partial, PartialColumn, Value
from headrace.aggregate.merges import Merge
from headrace.aggregate.signature import SINGLE, Argument
from headrace.types import BIGINT, BINARY, STRING, Type

if TYPE_CHECKING:
    import pyarrow as pa

LOG2_BUCKETS = 12
ARRAY_PREAMBLE = 10  # first byte of a sketch that has filled its list and become an array of buckets
HASH_SEED = 42  # Spark's, for xxhash64
EPOCH = datetime(1970, 1, 1)


def union_sketches(sketches: Sequence[bytes]) -> bytes:
    """The sketch of all sets. In one union: merging in pairs would serialize a sketch at each step."""
    from datasketches import hll_sketch, hll_union, tgt_hll_type  # loads numpy: not for definitions

    union = hll_union(LOG2_BUCKETS)
    for sketch in sketches:
        union.update(hll_sketch.deserialize(sketch))
    return bytes(union.get_result(tgt_hll_type.HLL_8).serialize_compact())


HLL = Merge("hll", lambda a, b: union_sketches((a, b)), "hll_union({0}, {1})", None, union_sketches)


def spark_hash(value: Value, of: Type) -> int:
    """Spark's xxhash64 of one value, as a signed 64-bit integer."""
    digest = xxhash.xxh64_intdigest(_hashed_bytes(value, of), seed=HASH_SEED)
    return digest - (1 << 64) if digest >> 63 else digest


def hash_values(values: pa.Array, of: Type) -> pa.Array:
    """Spark's xxhash64 of each value, computed once for equal ones; NULL for NULL."""
    # They take 0.1 s to import: not for definitions.
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = pc.dictionary_encode(values)
    hashes = [spark_hash(value, of) for value in encoded.dictionary.to_pylist()]
    return pa.array(hashes, pa.int64()).take(encoded.indices)


def sketch_hashes(lists: pa.Array) -> pa.Array:
    """A sketch of each list of hashes."""
    # They take 0.1 s to import: not for definitions.
    import pyarrow as pa
    from datasketches import hll_sketch, tgt_hll_type

    hashes, ends = lists.flatten().to_pylist(), lists.offsets.to_pylist()
    sketches = []
    for start, end in itertools.pairwise(ends):
        sketch = hll_sketch(LOG2_BUCKETS, tgt_hll_type.HLL_8)
        deque(map(sketch.update, hashes[start - ends[0] : end - ends[0]]), maxlen=0)  # a loop in C
        sketches.append(bytes(sketch.serialize_compact()))
    return pa.array(sketches, pa.binary())


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
            unscaled = int(Decimal(value).scaleb(of.scale))
            if of.precision <= 18:
                return struct.pack("<q", unscaled)
            return unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)
        case _:
            return struct.pack("<q", value)


SKETCH = Function("hll_sketch_of", BIGINT, BINARY, sketch_hashes, of_list=True)


class ApproxCountDistinct(Aggregate):
    """approx_count_distinct(x): how many different x, by a HyperLogLog sketch; NULL skipped."""

    name = "approx_count_distinct"
    takes = (Argument("expression", SINGLE),)
    summary = "The approximate number of distinct values of an expression."
    gives = "BIGINT"
    examples = (Example((STRING,), (("a",), (None,), ("b",), ("a",)), 2),)
    other_names = ("approx_distinct",)
    approximate = "within 3.3 % in 95 of 100 answers; exact below about 200"
    empty = 0
    functions = (HLL,)
    has_duckdb_face = True

    @property
    def type(self) -> Type:
        return BIGINT

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", BINARY, HLL),)

    def spark_columns(self, x: str) -> tuple[str, ...]:
        not_null = f"({x}) IS NOT NULL"
        where = f"({self.where.sql}) AND {not_null}" if self.where else not_null
        # NULL is the identity of a merge; without a value Spark would return the sketch of an empty set.
        sketch = f"hll_sketch_agg(xxhash64({x}), {LOG2_BUCKETS}) FILTER (WHERE {where})"
        return (f"CASE WHEN count_if({where}) > 0 THEN {sketch} END",)

    def duckdb_columns(self, x: str) -> tuple[str, ...]:
        not_null = f"({x}) IS NOT NULL"
        where = f"({self.where.sql}) AND {not_null}" if self.where else not_null
        return (f"{SKETCH.name}(list(DISTINCT {x}) FILTER (WHERE {where}))",)

    @property
    def prepares(self) -> Function | None:
        of = self.argument.type
        name = "xxhash64_" + "".join(character if character.isalnum() else "_" for character in str(of).lower())
        return Function(name, of, BIGINT, functools.partial(hash_values, of=of))

    @property
    def lifts(self) -> tuple[Function, ...]:
        return (SKETCH,)

    def lift(self, x: Value) -> Partial:
        if x is None:
            return (None,)
        from datasketches import hll_sketch, tgt_hll_type  # loads numpy: not for definitions

        sketch = hll_sketch(LOG2_BUCKETS, tgt_hll_type.HLL_8)
        sketch.update(spark_hash(x, self.argument.type))
        return (bytes(sketch.serialize_compact()),)

    def present(self, partial: Partial) -> Value:
        if partial[0] is None:
            return 0
        from datasketches import hll_sketch, hll_union, tgt_hll_type  # loads numpy: not for definitions

        sketch = hll_sketch.deserialize(partial[0])
        if partial[0][0] < ARRAY_PREAMBLE:  # it still is a list of hashes, in any order
            return round(sketch.get_estimate())
        # A union with itself drops the order-dependent estimator: all splits present one value.
        union = hll_union(LOG2_BUCKETS)
        union.update(sketch)
        union.update(sketch)
        return round(union.get_result(tgt_hll_type.HLL_8).get_estimate())
