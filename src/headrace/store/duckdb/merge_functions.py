"""Merges that DuckDB has no SQL for, as functions over Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import duckdb

from headrace.aggregate import REGISTRY, Merge
from headrace.aggregate.kernels import binary, unchunked
from headrace.aggregate.udaf import OWN
from headrace.duckdb_connections import add_function
from headrace.lazy import np, pa

Functions: TypeAlias = Mapping[str, Callable[[duckdb.DuckDBPyConnection], None]]  # by names: what registers them


def register_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Give every connection of this database `<merge>_union(a, b)` and `<merge>_fold(list)`."""
    for merge in {OWN, *(merge for aggregate in REGISTRY.values() for merge in aggregate.functions)}:
        add_function(connection, f"{merge.name}_union", _pairwise(merge), ["BLOB", "BLOB"], "BLOB")
        add_function(connection, f"{merge.name}_fold", _folding(merge), ["BLOB[]"], "BLOB")


def _pairwise(merge: Merge) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """`merge.pair` over two columns; DuckDB itself answers NULL where either is NULL."""

    def union(a: pa.Array, b: pa.Array) -> pa.Array:
        if merge.pairs:
            return merge.pairs(unchunked(a), unchunked(b))
        return _binary(map(merge.pair, a.to_pylist(), b.to_pylist()))

    return union


def _folding(merge: Merge) -> Callable[[pa.Array], pa.Array]:
    """The merge of each list, no list empty."""

    def fold(lists: pa.Array) -> pa.Array:
        if merge.lists:
            return merge.lists(unchunked(lists))
        return _binary(merge.merge(items) for items in lists.to_pylist())

    return fold


def _binary(values: Iterable[bytes]) -> pa.Array:
    """An array of these values. Arrow's own `array` would load pandas, 295 modules, to look for its types."""
    every = list(values)
    return binary(np.frombuffer(b"".join(every), np.uint8), 1, np.cumsum([0, *map(len, every)]))


MERGES: Functions = {"merges": register_functions}
