"""Computes the cells of a view over a table again, from files of the table's rows, and compares: its audit.

A folder has the rows of the table that the view reads and the cells that it had at the same commits; the cells that the
rows give are written beside them.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import duckdb

from headrace.define.model import View
from headrace.duckdb_connections import literal, run
from headrace.engine.duckdb_session import register_function
from headrace.engine.duckdb_terms import duckdb_name
from headrace.engine.time_functions import register as register_times
from headrace.errors import UnavailableError
from headrace.store.duckdb.batch_table import MEMORY_MB, UNFINISHED, connect, explained
from headrace.store.duckdb.key_ranges import cut_rows, range_bytes, stage
from headrace.store.duckdb.layer_audit import compare
from headrace.store.duckdb.snapshot import DuckSnapshot, speed_tables, speed_tables_of
from headrace.store.duckdb.stored_rows import present_rows
from headrace.store.duckdb.table_sql import row_columns
from headrace.store.duckdb.table_view_cells import fold_rows, functions_of, is_made_of, read_rows
from headrace.store.duckdb.version_rows import commits_text, gone
from headrace.store.partial_columns import EVENTS
from headrace.store.store_contract import Comparison
from headrace.store.version import Version

ROWS, CELLS = "rows.parquet", "speed.parquet"  # of the table, and of the view as it stands
RECOMPUTED = "batch"  # the start of the names of files with the cells that the rows give


def export_speed(snapshot: DuckSnapshot, version: Version, stream: str, target: Path) -> None:
    """Write the speed rows of commits [horizon, next_horizon) of a stream as Parquet."""
    _write(snapshot, _cells(version.view, speed_tables_of(version, stream)[0]), target)


def export_rows(snapshot: DuckSnapshot, version: Version, folder: Path) -> Version:
    """Write the cells of a version over a table, and the rows of that table, for `compare_with_rows`.

    Returns the version as it is here; it must be at the commits of its table.
    """
    view, over = snapshot.serving(version.view.name), version.view.over
    if view is None or view.id != version.id or over is None:
        raise gone(*version.id, "it does not serve")
    table = snapshot.serving(over.table)
    if table is None or not (view.at_commits_of(table) and is_made_of(snapshot.connection, view, table)):
        raise UnavailableError(
            f"view '{view.view.name}' cannot be compared with table '{over.table}'",
            found=f"{commits_text(view)}; the table has {commits_text(table) if table else 'no rows'}",
            fix=f"Headrace retries automatically; {view.stalled or 'the view is rebuilt first'}",
        )
    _write(snapshot, f"{_cells(view.view, speed_tables(view)[0])} WHERE {EVENTS} > 0", folder / CELLS)
    rows = present_rows(table.view, [name for name, _ in view.view.reads], snapshot.stored_in(table))
    _write(snapshot, rows, folder / ROWS)
    return view


def _cells(view: View, table: str) -> str:
    return f"SELECT {', '.join(name for name, _ in row_columns(view))} FROM {duckdb_name(table)}"


def _write(snapshot: DuckSnapshot, query: str, target: Path) -> None:
    run(snapshot.connection, f"COPY ({query}) TO {literal(target)} (FORMAT parquet)")


def compare_with_rows(
    view: View,
    folder: Path,
    *,
    memory_mb: int = MEMORY_MB,
    threads: int = 1,
    most_bytes: int | None = None,  # of a range; None: by the memory
) -> Comparison:
    """Compare what `export_rows` wrote: the cells of the view with those that the rows give."""
    spill = folder / f"{RECOMPUTED}.spill{UNFINISHED}"
    try:
        with (
            explained(f"view '{view.name}' cannot be computed again", folder, [folder / ROWS, folder / CELLS]),
            closing(connect(spill, memory_mb, threads)) as connection,
        ):
            recomputed = _compute_cells(connection, view, folder, spill, most_bytes or range_bytes(memory_mb))
    finally:
        shutil.rmtree(spill, ignore_errors=True)
    cells = folder / CELLS
    return compare(
        view, cells, recomputed, corrections=False, memory_mb=memory_mb, threads=threads, most_bytes=most_bytes
    )


def _compute_cells(
    connection: duckdb.DuckDBPyConnection, view: View, folder: Path, spill: Path, most: int
) -> list[Path]:
    register_times(connection)
    for function in functions_of(view):
        register_function(connection, function)
    rows = read_rows(view, f"SELECT * FROM read_parquet({literal(folder / ROWS)})")
    key_ranges = cut_rows(connection, view, rows, most)
    if len(key_ranges) > 1:
        rows = stage(connection, rows, spill / "staged")
    files = []
    for at, part in enumerate(key_ranges):
        files.append(folder / f"{RECOMPUTED}-{at}.parquet")
        folded = fold_rows(view, f"(SELECT * FROM ({rows}) WHERE {part.condition})")
        run(connection, f"COPY ({folded}) TO {literal(files[-1])} (FORMAT parquet)")
    return files
