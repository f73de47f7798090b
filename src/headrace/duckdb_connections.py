"""Opens DuckDB: the one place that does, so that every connection is in UTC and loads no extension; adds functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.lazy import duckdb

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY = ":memory:"
NO_EXTENSIONS = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}


def open_duckdb(
    path: str | Path = MEMORY,
    *,
    read_only: bool = False,
    threads: int = 1,
    memory: str | None = None,
    spill: str | Path | None = None,
    **settings: Any,
) -> DuckDBPyConnection:
    """Open a database: by default one in memory, for one thread.

    `memory` limits its memory; `spill` is the folder for what does not fit ("" for none). `settings` are those of
    DuckDB by their names.
    """
    every: dict[str, Any] = {**NO_EXTENSIONS, "threads": threads, **settings}
    if memory is not None:
        every["memory_limit"] = memory
    if spill is not None:
        every["temp_directory"] = str(spill)
    connection = duckdb.connect(str(path), read_only=read_only, config=every)
    connection.execute("SET GLOBAL TimeZone = 'UTC'").fetchall()  # of cursors, too
    return connection


def add_function(
    connection: Any,
    name: str,
    run: Callable[..., Any],
    takes: Sequence[str],
    gives: str,
    *,
    of_null: bool = False,
    side_effects: bool = False,
) -> None:
    """Add a function over Arrow arrays, with types of DuckDB. Unless `of_null`, NULL gives NULL without a call.

    With side effects it is called once for each row, and not again by each part of a query that uses its result.
    """
    connection.create_function(
        name,
        run,
        list(takes),
        gives,
        type="arrow",
        null_handling="special" if of_null else "default",
        side_effects=side_effects,
    )


def run(connection: DuckDBPyConnection, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    """Run and fetch to the end: an unfinished result would block its connection."""
    rows: list[tuple[Any, ...]] = connection.execute(query, parameters).fetchall()
    return rows


def literal(text: object) -> str:
    """A text as SQL writes it."""
    return "'" + str(text).replace("'", "''") + "'"
