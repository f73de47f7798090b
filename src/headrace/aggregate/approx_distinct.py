"""Approximate aggregates: small sketches that merge and state their error."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from headrace.aggregate.aggregate import Aggregate, ArrowFunction, Example, Partial, PartialColumn, Value
from headrace.aggregate.kernels import Lists, binary, hash_function, join, leading_zeros, murmur, spark_hash
from headrace.aggregate.merges import Merge
from headrace.aggregate.signature import SINGLE, Argument
from headrace.lazy import datasketches, np, pa
from headrace.types import BIGINT, BINARY, STRING, Type

LOG2_BUCKETS = 12
ARRAY_PREAMBLE = 10  # first byte of a sketch that has filled its list and become an array of buckets
COUPON_BITS, MOST_ZEROS = 26, 62
LEAST_SET, LEAST_SLOTS_LOG2, LOAD = 8, 5, 0.75  # coupons of a sketch that is a hash set; its slots; how full it may be
MOST_COUPONS = 384  # then it becomes an array
FORMAT = 1 << 8 | 7 << 16 | LOG2_BUCKETS << 24  # version, family
LIST, SET = 3 | 8 << 8 | 8 << 24, 8 << 8 | 9 << 24  # slots of a list, compact, kind of sketch


def union_sketches(sketches: Sequence[bytes]) -> bytes:
    """The sketch of all sets. In one union: merging in pairs would serialize a sketch at each step."""
    union = datasketches.hll_union(LOG2_BUCKETS)
    for sketch in sketches:
        union.update(datasketches.hll_sketch.deserialize(sketch))
    return bytes(union.get_result(datasketches.tgt_hll_type.HLL_8).serialize_compact())


HLL = Merge("hll", lambda a, b: union_sketches((a, b)), "hll_union({0}, {1})", None, union_sketches)


def sketch_hashes(lists: pa.Array) -> pa.Array:
    """A sketch of each list of hashes.

    One of few hashes is a list of their coupons: such sketches, which are most, are written for all lists at once.
    """
    each = Lists.of(lists)
    if not len(each.counts):
        return pa.nulls(len(lists), pa.binary())
    hashes = np.asarray(each.values)
    coupons, _, ends = each.counted(_coupons(hashes))
    counts = np.diff(ends)
    is_set = counts >= LEAST_SET
    slots = np.maximum(LEAST_SLOTS_LOG2, np.ceil(np.log2(counts / LOAD))).astype(np.uint32)
    heads = np.zeros((len(counts), 2), dtype=np.uint32)
    heads[:, 0] = FORMAT | np.where(is_set, 3, 2)
    heads[:, 1] = np.where(is_set, SET | slots, LIST | counts.astype(np.uint32) << 16)
    lengths = binary(counts[is_set].astype(np.uint32), 4, np.concatenate([[0], np.cumsum(is_set)]))  # of sets only
    sketches = join(binary(heads, 8), lengths, binary(coupons, 4, ends))
    is_large = counts > MOST_COUPONS
    large = []
    for at in np.flatnonzero(is_large):
        sketch = datasketches.hll_sketch(LOG2_BUCKETS, datasketches.tgt_hll_type.HLL_8)
        own = hashes[each.ends[at] : each.ends[at + 1]].tolist()
        deque(map(sketch.update, own), maxlen=0)  # a loop in C
        large.append(bytes(sketch.serialize_compact()))
    return each.spread(sketches, is_large, large)


def _coupons(hashes: Any) -> Any:
    """What an HLL sketch keeps of each hash: where it belongs, and how long its run of zeros is."""
    first, second = murmur(hashes)
    place = first & np.uint64((1 << COUPON_BITS) - 1)
    run = np.minimum(leading_zeros(second), MOST_ZEROS).astype(np.uint64) + np.uint64(1)
    return (run << np.uint64(COUPON_BITS) | place).astype(np.uint32)


SKETCH = ArrowFunction("hll_sketch_of", BIGINT, BINARY, sketch_hashes, of_list=True)


class ApproxCountDistinct(Aggregate):
    """approx_count_distinct(x): how many different x, by a HyperLogLog sketch; NULL skipped."""

    name = "approx_count_distinct"
    distinct = "approx_count_distinct"
    takes = (Argument("expression", SINGLE),)
    summary = "The approximate number of distinct values of an expression."
    gives = "BIGINT"
    examples = (Example((STRING,), (("a",), (None,), ("b",), ("a",)), 2),)
    other_names = ("approx_distinct",)
    approximate = "within 3.3 % in 95 of 100 answers; exact below about 200"
    empty = 0
    functions = (HLL,)
    runs_in_duckdb = True

    @property
    def type(self) -> Type:
        return BIGINT

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", BINARY, HLL),)

    def spark_columns(self, x: str) -> tuple[str, ...]:
        return (self.or_null(f"hll_sketch_agg(xxhash64({x}), {LOG2_BUCKETS})", x),)

    def duckdb_columns(self, x: str) -> tuple[str, ...]:
        return (f"{SKETCH.name}({self.of_values(f'list({x})', x)})",)

    @property
    def prepares(self) -> ArrowFunction | None:
        return hash_function(self.argument.type)

    @property
    def lifts(self) -> tuple[ArrowFunction, ...]:
        return (SKETCH,)

    def lift(self, x: Value) -> Partial:
        if x is None:
            return (None,)
        sketch = datasketches.hll_sketch(LOG2_BUCKETS, datasketches.tgt_hll_type.HLL_8)
        sketch.update(spark_hash(x, self.argument.type))
        return (bytes(sketch.serialize_compact()),)

    def present(self, partial: Partial) -> Value:
        if partial[0] is None:
            return 0
        sketch = datasketches.hll_sketch.deserialize(partial[0])
        if partial[0][0] < ARRAY_PREAMBLE:  # it still is a list of hashes, in any order
            return round(sketch.get_estimate())
        # A union with itself drops the order-dependent estimator: all splits present one value.
        union = datasketches.hll_union(LOG2_BUCKETS)
        union.update(sketch)
        union.update(sketch)
        return round(union.get_result(datasketches.tgt_hll_type.HLL_8).get_estimate())
