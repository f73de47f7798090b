"""How many different values, exactly while they are few: a theta sketch, which Spark's own function writes too."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.aggregate.base import Aggregate, Example, Function, Partial, PartialColumn, Value
from headrace.aggregate.hashes import hash_function, murmur, spark_hash
from headrace.aggregate.merges import Merge
from headrace.aggregate.packed import Lists, binary, join
from headrace.aggregate.signature import SINGLE, Argument
from headrace.types import BIGINT, BINARY, STRING, Type

if TYPE_CHECKING:
    import pyarrow as pa

LOG2_KEPT = 12
KEPT = 1 << LOG2_KEPT  # hashes: up to so many values are counted exactly
# Integers before the hashes, version, family, and then: read-only, compact, ordered; a hash of the seed.
FORMAT = 2 | 3 << 8 | 3 << 16 | (2 | 8 | 16) << 40 | 0x93CC << 48


def merge_sketches(sketches: Sequence[bytes]) -> bytes:
    """The sketch of all values."""
    from datasketches import compact_theta_sketch, theta_union  # loads numpy: not for definitions

    union = theta_union(LOG2_KEPT)
    for sketch in sketches:
        union.update(compact_theta_sketch.deserialize(sketch))
    return bytes(union.get_result().serialize())


THETA = Merge("theta", lambda a, b: merge_sketches((a, b)), "theta_union({0}, {1})", None, merge_sketches)


def sketch_hashes(lists: pa.Array) -> pa.Array:
    """A sketch of each list of hashes.

    One of few hashes is a sorted list of them: such sketches, which are most, are written for all lists at once.
    """
    # They take 0.1 s to import: not for definitions.
    import numpy as np
    import pyarrow as pa
    from datasketches import update_theta_sketch

    each = Lists.of(lists)
    if not len(each.counts):
        return pa.nulls(len(lists), pa.binary())
    numbers = np.asarray(each.values)
    rows = np.repeat(np.arange(len(each.counts)), each.counts)
    hashes = murmur(numbers)[0] >> np.uint64(1)
    order = np.lexsort((hashes, rows))
    hashes, rows = hashes[order], rows[order]
    is_first = np.concatenate([[True], (hashes[1:] != hashes[:-1]) | (rows[1:] != rows[:-1])])
    hashes, rows = hashes[is_first], rows[is_first]
    ends = np.searchsorted(rows, np.arange(len(each.counts) + 1))
    counts = np.diff(ends)
    heads = np.zeros((len(counts), 2), dtype=np.uint64)
    heads[:, 0] = FORMAT
    heads[:, 1] = counts
    sketches = join(binary(heads, 16), binary(hashes, 8, ends))
    is_large = counts > KEPT
    large = []
    for at in np.flatnonzero(is_large):
        sketch = update_theta_sketch(LOG2_KEPT)
        deque(map(sketch.update, numbers[each.ends[at] : each.ends[at + 1]].tolist()), maxlen=0)  # a loop in C
        large.append(bytes(sketch.compact().serialize()))
    return each.spread(sketches, is_large, large)


SKETCH = Function("theta_sketch_of", BIGINT, BINARY, sketch_hashes, of_list=True)


class Unique(Aggregate):
    """unique(x): how many different x, exactly while they are few; NULL skipped."""

    name = "unique"
    takes = (Argument("expression", SINGLE),)
    summary = (
        f"The number of distinct values of an expression: exact up to {KEPT}, an estimate beyond it. An answer states "
        "the error only if it holds an estimate."
    )
    gives = "BIGINT"
    examples = (Example((STRING,), (("a",), (None,), ("b",), ("a",)), 2),)
    approximate = f"within 3.2 % in 95 of 100 answers where it is above {KEPT}; exact up to there"
    exact_up_to = KEPT
    empty = 0
    functions = (THETA,)
    has_duckdb_face = True

    @property
    def type(self) -> Type:
        return BIGINT

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", BINARY, THETA),)

    def spark_columns(self, x: str) -> tuple[str, ...]:
        return (self.or_null(f"theta_sketch_agg(xxhash64({x}), {LOG2_KEPT})", x),)

    def duckdb_columns(self, x: str) -> tuple[str, ...]:
        return (f"{SKETCH.name}({self.of_values(f'list({x})', x)})",)

    @property
    def prepares(self) -> Function | None:
        return hash_function(self.argument.type)

    @property
    def lifts(self) -> tuple[Function, ...]:
        return (SKETCH,)

    def lift(self, x: Value) -> Partial:
        if x is None:
            return (None,)
        from datasketches import update_theta_sketch  # loads numpy: not for definitions

        sketch = update_theta_sketch(LOG2_KEPT)
        sketch.update(spark_hash(x, self.argument.type))
        return (bytes(sketch.compact().serialize()),)

    def present(self, partial: Partial) -> Value:
        if partial[0] is None:
            return 0
        from datasketches import compact_theta_sketch, theta_union  # loads numpy: not for definitions

        # A union keeps the same hashes for every split, however many a sketch of one engine keeps.
        union = theta_union(LOG2_KEPT)
        union.update(compact_theta_sketch.deserialize(partial[0]))
        result = union.get_result()
        count = round(result.get_estimate())
        return max(count, KEPT + 1) if result.is_estimation_mode() else count  # so that the value tells which it is
