"""Merges of many values at once, and those that DuckDB has no SQL for as functions over Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import duckdb
import pyarrow as pa
from datasketches import hll_sketch, hll_union, tgt_hll_type

from headrace.aggregate import HLL, Merge
from headrace.aggregate.sketch import LOG2_BUCKETS

FOREIGN: tuple[Merge, ...] = (HLL,)  # those whose `fold` is None


def merge_values(merge: Merge, values: Sequence[Any]) -> Any:
    """`merge.pair` over at least one value, none of them None."""
    if len(values) == 1:
        return values[0]
    return _union_hll(values) if merge is HLL else reduce(merge.pair, values)


def _union_hll(sketches: Sequence[bytes]) -> bytes:
    """One union for all: pair by pair each step would write a sketch only to read it again."""
    union = hll_union(LOG2_BUCKETS)
    for sketch in sketches:
        union.update(hll_sketch.deserialize(sketch))
    return bytes(union.get_result(tgt_hll_type.HLL_8).serialize_compact())


def register_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Give every connection of this database `<merge>_union(a, b)` and `<merge>_fold(list)`."""
    for merge in FOREIGN:
        connection.create_function(f"{merge.name}_union", _pairwise(merge), ["BLOB", "BLOB"], "BLOB", type="arrow")
        connection.create_function(f"{merge.name}_fold", _folding(merge), ["BLOB[]"], "BLOB", type="arrow")


def _pairwise(merge: Merge) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """`merge.pair` over two columns; DuckDB itself answers NULL where either is NULL."""

    def union(a: pa.Array, b: pa.Array) -> pa.Array:
        return pa.array(map(merge.pair, a.to_pylist(), b.to_pylist()), pa.binary())

    return union


def _folding(merge: Merge) -> Callable[[pa.Array], pa.Array]:
    """The merge of each list, no list empty."""

    def fold(lists: pa.Array) -> pa.Array:
        return pa.array((merge_values(merge, items) for items in lists.to_pylist()), pa.binary())

    return fold
