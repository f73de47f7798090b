"""Functions of aggregates that DuckDB does not have, for whoever computes partials with it."""

from __future__ import annotations

import duckdb
from duckdb.func import ARROW, DEFAULT, SPECIAL

from headrace.aggregate import ArrowFunction
from headrace.aggregate.kernels import unchunked
from headrace.engine.duckdb_terms import duckdb_type


def register_function(connection: duckdb.DuckDBPyConnection, function: ArrowFunction) -> None:
    """Give a connection the function of an aggregate."""
    of = f"{duckdb_type(function.of)}{'[]' if function.of_list else ''}"
    gives = duckdb_type(function.gives)
    # DuckDB would read the annotations of the function itself, some of which only type checkers can resolve.
    connection.create_function(
        function.name,
        lambda values: function.run(unchunked(values)),
        [of],
        gives,
        type=ARROW,
        null_handling=SPECIAL if function.of_null else DEFAULT,
    )
