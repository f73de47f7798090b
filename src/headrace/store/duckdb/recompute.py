"""Computes the cells of a view over a table again, from files of the table's rows, and compares: its audit.

A folder has the rows of the table that the view reads and the cells that it had at the same commits; the cells that the
rows give are written beside them.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import duckdb

from headrace.define.expression.computed import duckdb_name
from headrace.define.model import View
from headrace.parse.time_patterns import register as register_times
from headrace.store.base import Comparison
from headrace.store.columns import EVENTS
from headrace.store.duckdb.batch_table import MEMORY_MB, UNFINISHED, connect, explained
from headrace.store.duckdb.compare import compare
from headrace.store.duckdb.database import literal, run
from headrace.store.duckdb.derived import fold_rows, functions_of, read_rows
from headrace.store.duckdb.portions import cut_rows, portion_bytes, stage
from headrace.store.duckdb.tables import row_columns
from headrace.store.functions import register_function

ROWS, CELLS = "rows.parquet", "speed.parquet"  # of the table, and of the view as it stands
ANEW = "batch"  # the start of the names of files with the cells that the rows give


def write_rows(connection: duckdb.DuckDBPyConnection, view: View, cells: str, rows: str, folder: Path) -> None:
    """Write the cells of a view over a table and, of the query `rows`, the rows of the table."""
    columns = ", ".join(name for name, _ in row_columns(view))
    there = f"SELECT {columns} FROM {duckdb_name(cells)} WHERE {EVENTS} > 0"
    for query, name in ((there, CELLS), (rows, ROWS)):
        run(connection, f"COPY ({query}) TO {literal(folder / name)} (FORMAT parquet)")


def compare_with_rows(
    view: View,
    folder: Path,
    *,
    memory_mb: int = MEMORY_MB,
    threads: int = 1,
    portion: int | None = None,  # bytes; None: by the memory
) -> Comparison:
    """Compare what `write_rows` wrote: the cells of the view with those that the rows give."""
    spill = folder / f"{ANEW}.spill{UNFINISHED}"
    try:
        with (
            explained(f"view '{view.name}' cannot be computed again", folder, [folder / ROWS, folder / CELLS]),
            closing(connect(spill, memory_mb, threads)) as connection,
        ):
            anew = _compute_cells(connection, view, folder, spill, portion or portion_bytes(memory_mb))
    finally:
        shutil.rmtree(spill, ignore_errors=True)
    cells = folder / CELLS
    return compare(view, cells, anew, corrections=False, memory_mb=memory_mb, threads=threads, portion=portion)


def _compute_cells(
    connection: duckdb.DuckDBPyConnection, view: View, folder: Path, spill: Path, most: int
) -> list[Path]:
    register_times(connection)
    for function in functions_of(view):
        register_function(connection, function)
    rows = read_rows(view, f"SELECT * FROM read_parquet({literal(folder / ROWS)})")
    portions = cut_rows(connection, view, rows, most)
    if len(portions) > 1:
        rows = stage(connection, rows, spill / "staged")
    files = []
    for at, part in enumerate(portions):
        files.append(folder / f"{ANEW}-{at}.parquet")
        folded = fold_rows(view, f"(SELECT * FROM ({rows}) WHERE {part.condition})")
        run(connection, f"COPY ({folded}) TO {literal(files[-1])} (FORMAT parquet)")
    return files
