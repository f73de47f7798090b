"""Merges that DuckDB has no SQL for, as functions over Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import duckdb
import pyarrow as pa

from headrace.aggregate import HLL, Merge

FOREIGN: tuple[Merge, ...] = (HLL,)  # those whose `fold` is None


def register_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Give every connection of this database `<merge>_union(a, b)` and `<merge>_fold(list)`."""
    for merge in FOREIGN:
        connection.create_function(f"{merge.name}_union", pairwise(merge), ["BLOB", "BLOB"], "BLOB", type="arrow")
        connection.create_function(f"{merge.name}_fold", folding(merge), ["BLOB[]"], "BLOB", type="arrow")


def pairwise(merge: Merge) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """`merge.pair` over two columns; DuckDB itself answers NULL where either is NULL."""

    def union(a: pa.Array, b: pa.Array) -> pa.Array:
        return pa.array(map(merge.pair, a.to_pylist(), b.to_pylist()), pa.binary())

    return union


def folding(merge: Merge) -> Callable[[pa.Array], pa.Array]:
    """`merge.pair` over the items of each list, none of them NULL and no list empty."""

    def fold(lists: pa.Array) -> pa.Array:
        return pa.array((reduce(merge.pair, items) for items in lists.to_pylist()), pa.binary())

    return fold
