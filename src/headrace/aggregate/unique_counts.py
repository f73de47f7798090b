"""How many different values: exact in the batch layer, a theta sketch in the speed layer.

A partial has two columns. The sketch, which both layers fill, is exact while it has few hashes. The set, which only the
batch layer fills, has two hashes of each value: a theta sketch so large that it drops none. Where a part of the events
has no set, the result has none, and its sketch is what counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from headrace.aggregate.aggregate import Aggregate, ArrowFunction, BatchOnly, Example, Partial, PartialColumn, Value
from headrace.aggregate.kernels import Lists, binary, hash_function, join, murmur, second_spark_hash, spark_hash
from headrace.aggregate.merges import Merge
from headrace.aggregate.signature import SINGLE, Argument
from headrace.lazy import datasketches, np, pa, pc
from headrace.types import BIGINT, BINARY, STRING, Type

LOG2_KEPT = 12
KEPT = 1 << LOG2_KEPT  # hashes of a sketch: up to so many values are counted exactly
LOG2_LIMIT = 20
LIMIT = 1 << LOG2_LIMIT  # values of a set
HASH_BYTES = 8
# Integers before the hashes, version, family, and then: read-only, compact, ordered; a hash of the seed.
FORMAT = 2 | 3 << 8 | 3 << 16 | (2 | 8 | 16) << 40 | 0x93CC << 48
HEAD_BYTES = 16
COMPRESSED = 4  # the version that Spark writes
EMPTY = 4  # the flag of a sketch without hashes
ABSENT = b""  # in place of a set that is not known, or too large
TOLERANCE = 0.1  # of an estimate against a set: six times its standard error


def read_head(sketch: bytes) -> tuple[int, bool]:
    """How many hashes a serialized sketch has, and whether it has dropped some, so that it only estimates."""
    longs, version = sketch[0] & 0x3F, sketch[1]
    if version == COMPRESSED:
        start, width = HASH_BYTES * longs, sketch[4]
        return int.from_bytes(sketch[start : start + width], "little"), longs > 1
    if longs == 1:
        return int(not sketch[5] & EMPTY), False
    return int.from_bytes(sketch[8:12], "little"), longs > 2


def merge_sketches(sketches: Sequence[bytes]) -> bytes:
    """The sketch of all values."""
    union = datasketches.theta_union(LOG2_KEPT)
    for sketch in sketches:
        union.update(datasketches.compact_theta_sketch.deserialize(sketch))
    return bytes(union.get_result().serialize())


def merge_sets(sets: Sequence[bytes]) -> bytes:
    """The set of all values; absent where one of the sets is, and where there are too many values."""
    if not all(map(is_set, sets)):
        return ABSENT
    hashes = np.sort(np.concatenate([_hashes_of(each) for each in sets]), kind="stable")  # merges what is sorted
    hashes = hashes[np.concatenate([[True], hashes[1:] != hashes[:-1]])]
    if len(hashes) > 2 * LIMIT:
        return ABSENT
    head = FORMAT.to_bytes(8, "little") + len(hashes).to_bytes(8, "little")
    return head + bytes(hashes.data)


def is_set(value: bytes | None) -> bool:
    """Whether the value of the second column is a set that has all hashes."""
    if not value:
        return False
    count, estimates = read_head(value)
    return not estimates and count <= 2 * LIMIT


def _hashes_of(value: bytes) -> Any:
    if value[1] == COMPRESSED:
        value = bytes(datasketches.compact_theta_sketch.deserialize(value).serialize())
    return np.frombuffer(value, dtype="<u8", offset=HASH_BYTES * (value[0] & 0x3F))


def _merge_lists_of_sets(lists: pa.Array) -> pa.Array:
    """The merge of each list: in the speed layer all are absent, which costs nothing here."""
    sizes = np.asarray(pc.binary_length(lists.flatten()), dtype=np.int64)
    starts = np.asarray(lists.offsets, dtype=np.int64)[:-1] - lists.offsets[0].as_py()
    least = np.minimum.reduceat(sizes, starts) if len(starts) else sizes
    return pa.array(
        (merge_sets(lists[at].as_py()) if size else ABSENT for at, size in enumerate(least.tolist())), pa.binary()
    )


THETA = Merge("theta", lambda a, b: merge_sketches((a, b)), "theta_union({0}, {1})", None, merge_sketches)
SETS = Merge(
    "theta_sets",
    lambda a, b: merge_sets((a, b)),
    "CASE WHEN least(octet_length({0}), octet_length({1})) = 0 THEN ''::BLOB ELSE theta_sets_union({0}, {1}) END",
    None,
    merge_sets,
    lists=_merge_lists_of_sets,
)


def sketch_hashes(lists: pa.Array) -> pa.Array:
    """A sketch of each list of hashes.

    One of few hashes is a sorted list of them: such sketches, which are most, are written for all lists at once.
    """
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
        sketch = datasketches.update_theta_sketch(LOG2_KEPT)
        deque(map(sketch.update, numbers[each.ends[at] : each.ends[at + 1]].tolist()), maxlen=0)  # a loop in C
        large.append(bytes(sketch.compact().serialize()))
    return each.spread(sketches, is_large, large)


SKETCH = ArrowFunction("theta_sketch_of", BIGINT, BINARY, sketch_hashes, of_list=True)


class Unique(Aggregate):
    """unique(x): how many different x; NULL skipped."""

    name = "unique"
    takes = (Argument("expression", SINGLE),)
    summary = (
        f"The number of distinct values of an expression: exact up to {KEPT:,} values; beyond them an estimate in the "
        f"speed layer and exact in the batch layer, which has all events up to the last refresh, up to {LIMIT:,} "
        "values. An answer says which of its rows are estimates."
    )
    gives = "BIGINT"
    examples = (Example((STRING,), (("a",), (None,), ("b",), ("a",)), 2),)
    approximate = "within 3.2 % in 95 of 100 answers"
    may_be_exact = True
    empty = 0
    functions = (THETA, SETS)
    runs_in_duckdb = True

    @property
    def type(self) -> Type:
        return BIGINT

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        left_out = BatchOnly("''::BLOB", 2 * HASH_BYTES, 2 * HASH_BYTES * LIMIT + HEAD_BYTES)
        return (PartialColumn("", BINARY, THETA), PartialColumn("set", BINARY, SETS, left_out))

    def spark_columns(self, x: str) -> tuple[str, ...]:
        sketch = self.or_null(f"theta_sketch_agg(xxhash64({x}), {LOG2_KEPT})", x)
        return (sketch, f"CASE WHEN {self.of_values('count(*)', x)} > 0 THEN X'' END")

    def batch_columns(self, x: str) -> tuple[str, ...]:
        first, second = (
            self.of_values(f"theta_sketch_agg({hashed}, {LOG2_LIMIT})", x)
            for hashed in (f"xxhash64({x})", f"xxhash64(1L, {x})")
        )
        both = f"theta_union({first}, {second}, {LOG2_LIMIT + 1})"
        # A sketch that Spark writes begins with 1 where it has dropped no hash.
        whole = f"CASE WHEN substring({both}, 1, 1) = X'01' THEN {both} ELSE X'' END"
        some = f"{self.of_values('count(*)', x)} > 0"
        # The small sketch is the part of the large one that the speed layer has: the audit compares it.
        return (
            f"CASE WHEN {some} THEN theta_union({first}, {first}, {LOG2_KEPT}) END",
            f"CASE WHEN {some} THEN {whole} END",
        )

    def duckdb_columns(self, x: str) -> tuple[str, ...]:
        sketch = f"{SKETCH.name}({self.of_values(f'list({x})', x)})"
        return (sketch, f"CASE WHEN {self.of_values('count(*)', x)} > 0 THEN ''::BLOB END")

    @property
    def prepares(self) -> ArrowFunction | None:
        return hash_function(self.argument.type)

    @property
    def lifts(self) -> tuple[ArrowFunction, ...]:
        return (SKETCH,)

    def lift(self, x: Value) -> Partial:
        """As the batch layer does."""
        if x is None:
            return (None, None)
        sketch = datasketches.update_theta_sketch(LOG2_KEPT)
        sketch.update(spark_hash(x, self.argument.type))
        first = bytes(sketch.compact().serialize())
        sketch.update(second_spark_hash(x, self.argument.type))
        return (first, bytes(sketch.compact().serialize()))

    def present(self, partial: Partial) -> Value:
        sketch, values = partial
        if is_set(values):
            return (read_head(values)[0] + 1) // 2  # right even where two of all hashes are equal
        return 0 if sketch is None else _estimate(sketch)

    def is_exact(self, partial: Partial) -> bool:
        sketch, values = partial
        return sketch is None or is_set(values) or _is_whole(sketch)

    def agrees(self, a: Partial, b: Partial) -> bool:
        sketches = [0 if sketch is None else _estimate(sketch) for sketch, _ in (a, b)]
        if sketches[0] != sketches[1]:
            return False
        one, other = self.present(a), self.present(b)
        both_exact = self.is_exact(a) and self.is_exact(b)
        return bool(one == other if both_exact else abs(one - other) <= TOLERANCE * max(one, other))


def _is_whole(sketch: bytes) -> bool:
    count, estimates = read_head(sketch)
    return not estimates and count <= KEPT


def _estimate(sketch: bytes) -> int:
    """The number of values, the same for every split of them, however many hashes a sketch of one engine keeps."""
    if _is_whole(sketch):
        return read_head(sketch)[0]
    union = datasketches.theta_union(LOG2_KEPT)
    union.update(datasketches.compact_theta_sketch.deserialize(sketch))
    return round(union.get_result().get_estimate())
