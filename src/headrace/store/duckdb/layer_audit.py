"""Compares what the two layers say of the same commits, row by row and column by column: the audit.

What is equal to the byte DuckDB decides; of the rest, `agrees` of each aggregate.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import duckdb

from headrace.define.model import View
from headrace.duckdb_connections import run
from headrace.engine.duckdb_terms import duckdb_name
from headrace.store.agreement import Agreement, Pair
from headrace.store.duckdb.batch_table import MEMORY_MB, UNFINISHED, connect, explained, read_files
from headrace.store.duckdb.key_ranges import cut, range_bytes, stage
from headrace.store.duckdb.table_sql import folded_columns
from headrace.store.partial_columns import CORRECTIONS, EVENTS, KEY_ID, PANE, partials_of
from headrace.store.store_contract import Comparison

PIECE = 2_000  # rows that are looked at at once: sketches have up to 4 kB each


def compare(
    view: View,
    speed: Path,
    partials: Sequence[Path],
    *,
    corrections: bool = True,
    memory_mb: int = MEMORY_MB,
    threads: int = 1,
    most_bytes: int | None = None,  # of a range; None: by the memory
) -> Comparison:
    """Compare the speed layer's rows, a Parquet file with one for each (key, pane), with files of partials.

    Beside the view's columns: how many `events` are in a row and, unless not wanted, how many were `corrections`.
    """
    agreement = Agreement(view, corrections=corrections)
    rows = events = 0
    spill = speed.with_name(f"{speed.name}.spill{UNFINISHED}")
    # What only one layer fills is not compared.
    batch, speed_rows = (read_files(view, files, complete=False) for files in (partials or [speed], [speed]))
    if not partials:
        batch += " WHERE false"
    try:
        with (
            explained(f"view '{view.name}': its two layers cannot be compared", speed, [speed, *partials]),
            closing(connect(spill, memory_mb, threads)) as connection,
        ):
            most = most_bytes or range_bytes(memory_mb)
            key_ranges = cut(connection, view, f"{batch} UNION ALL {speed_rows}", most)
            if len(key_ranges) > 1:
                batch, speed_rows = (
                    stage(connection, batch, spill / "batch"),
                    stage(connection, speed_rows, spill / "speed"),
                )
            for part in key_ranges:
                there = f"SELECT * FROM ({speed_rows}) WHERE {part.condition}"
                folded = f"SELECT {folded_columns(view)} FROM ({batch}) WHERE {part.condition}"
                run(connection, f"CREATE OR REPLACE TEMP TABLE folded AS {folded} GROUP BY {KEY_ID}, {PANE}")
                counts = run(connection, f"SELECT count(*), coalesce(sum({EVENTS}), 0)::BIGINT FROM folded")[0]
                rows, events = rows + counts[0], events + counts[1]
                for pair in _differing(connection, view, there):
                    rows += pair.values[EVENTS][0] is None  # this one only the speed layer has
                    agreement.look_at(pair)
    finally:
        shutil.rmtree(spill, ignore_errors=True)
    return Comparison(rows, events, agreement.drift())


def _differing(connection: duckdb.DuckDBPyConnection, view: View, speed: str) -> Iterator[Pair]:
    """The rows of table `folded` and of the query that are not equal to the byte, or missing on one side."""
    names = [EVENTS, CORRECTIONS, *(name for name, _ in partials_of(view))]
    sides = [(f"_b.{duckdb_name(name)}", f"_s.{duckdb_name(name)}") for name in names]
    fixed = [f"coalesce(_b.{name}, _s.{name})" for name in (PANE, *(duckdb_name(key.name) for key in view.keys))]
    selected = [*fixed, *(side for pair in sides for side in pair)]
    differs = " OR ".join(f"{batch} IS DISTINCT FROM {speed}" for batch, speed in sides)
    reader = connection.sql(
        f"SELECT {', '.join(f'{column} AS c{i}' for i, column in enumerate(selected))} "
        f"FROM folded AS _b FULL JOIN ({speed}) AS _s ON _b.{KEY_ID} = _s.{KEY_ID} AND _b.{PANE} = _s.{PANE} "
        f"WHERE {differs}"
    ).to_arrow_reader(PIECE)
    at = len(fixed)
    for piece in reader:
        for row in zip(*(column.to_pylist() for column in piece.columns), strict=True):
            pairs = zip(row[at::2], row[at + 1 :: 2], strict=True)
            yield Pair(row[0], row[1:at], dict(zip(names, pairs, strict=True)))
